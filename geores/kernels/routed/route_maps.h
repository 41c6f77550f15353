// From a token's projections to its routes, value by value, on a GPU: one kernel instead of a kernel
// for each slice, activation, scale and bias.
#pragma once

#include "geores/kernels/mixers/mixers.h"

namespace geores::kernels {

// Hyper-connections of Zhu et al., raw (tokens, n, n + 2), a row for each stream:
//   read_j = s tanh(raw_j0) + pre_j,   res_ij = s tanh(raw_j,1+i) + res_ij,
//   write_j = s' tanh(raw_j,n+1) + post_j
template <class T>
struct TanhRoutes {
  T *scale, *post_scale;  // one value each
  T *pre, *res, *post;    // (n), (n, n), (n)
};
constexpr bool fits_tanh_routes(int64_t n) { return n >= 1 && n * (n + 2) <= 256; }

template <class T>
void tanh_routes_forward(CudaStream stream, const T* raw, const TanhRoutes<const T>& routes, T* res,
                         T* read, T* write, const MixerShape& shape);

// Overwrites draw and adds to the gradients of the parameters.
template <class T>
void tanh_routes_backward(CudaStream stream, const T* raw, const TanhRoutes<const T>& routes,
                          const T* dres, const T* dread, const T* dwrite, T* draw,
                          const TanhRoutes<T>& gradients, const MixerShape& shape);

// raw (tokens, 2n + rest) -> read = σ(first n) + offset, write = 2σ(next n), others = the rest as
// they are: (tokens, n), (tokens, n), (tokens, rest).
template <class T>
void sigmoid_routes_forward(CudaStream stream, const T* raw, T offset, T* read, T* write, T* others,
                            int64_t rest, const MixerShape& shape);

// Overwrites draw.
template <class T>
void sigmoid_routes_backward(CudaStream stream, const T* raw, const T* dread, const T* dwrite,
                             const T* dothers, T* draw, int64_t rest, const MixerShape& shape);

}  // namespace geores::kernels
