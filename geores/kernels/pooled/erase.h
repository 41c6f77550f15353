// The pooled delta rule on a GPU: g = x − β k (kᵀx) with one direction k and one β for each
// sequence, and h = LN(g). x, g (tokens, width), k (sequences, width), beta (sequences); width up
// to kDeviceRow.
#pragma once

#include "geores/kernels/norms/norm.h"

namespace geores::kernels {

template <class T>
struct EraseArrays {
  T *k, *beta;
};

template <class T, class A>
void erase_norm_forward(CudaStream stream, const EraseArrays<const T>& erase, const T* x,
                        const Norm<T>& norm, T* g, A* h, RowStatistics<T>* statistics,
                        int64_t sequences, int64_t tokens, int64_t width);

// Takes dg (or null) and dh; overwrites dx and the gradients of k and beta, adds to dweight.
template <class T, class A>
void erase_norm_backward(CudaStream stream, const EraseArrays<const T>& erase, const T* x,
                         const Norm<T>& norm, const RowStatistics<T>* statistics, const T* dg,
                         const A* dh, T* dx, const EraseArrays<T>& gradients, T* dweight,
                         int64_t sequences, int64_t tokens, int64_t width);

// The same with a direction and a β for each token. They come from raw values (tokens, stride) = [k
// | β | …] of perceptrons and their biases: k + bias is normalized, and β is 2σ(β + bias).
template <class T>
struct RawEraseArrays {
  T *values, *k_bias, *beta_bias;
  int64_t stride;
};

template <class T, class A>
void token_erase_norm_forward(CudaStream stream, const RawEraseArrays<const T>& raw, const T* x,
                              const Norm<T>& norm, T* g, A* h, RowStatistics<T>* statistics,
                              int64_t tokens, int64_t width);

// Overwrites dx and all of draw (tokens, stride), adds to the other gradients.
template <class T, class A>
void token_erase_norm_backward(CudaStream stream, const RawEraseArrays<const T>& raw, const T* x,
                               const Norm<T>& norm, const RowStatistics<T>* statistics, const T* dg,
                               const A* dh, T* dx, A* draw, T* dk_bias, T* dbeta_bias, T* dweight,
                               int64_t tokens, int64_t width);

}  // namespace geores::kernels
