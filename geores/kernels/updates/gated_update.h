// MGT's update of a state on a GPU (residual/mgt/mgt.h has the formula), for rows of `width` values:
//   y = v ⊙ σ(LN(gate)),  β = λ tanh(beta + bias) + ε,  out = x + β ⊙ (y − αx)
// Without gate y = v; without beta out = x + y. A warp has a row and walks along its columns.
#pragma once

#include "geores/kernels/norms/norm.h"

namespace geores::kernels {

inline constexpr int64_t kMostGatedValues = 2048;  // a warp keeps three rows in shared memory

template <class T, class A>
struct GatedUpdate {
  const T* x;  // (rows, width)
  const A* v;
  const A *gate, *beta;  // (rows, stride); either may be null
  int64_t stride;
  Norm<T> norm;     // of the gate
  const T* bias;    // (width); with beta
  const T* alpha;   // (1); with beta
  T scale, offset;  // λ, ε
  int64_t rows, width;
};

// statistics (rows) are not touched without a gate.
template <class T, class A>
void gated_update_forward(CudaStream stream, const GatedUpdate<T, A>& p, T* out,
                          RowStatistics<T>* statistics);

// Overwrites dx, dv, dgate and dbeta (rows, stride); adds to the gradients of the norm's weight, of
// bias and of alpha, which are null where there is no gate or no beta.
template <class T, class A>
struct GatedUpdateGradients {
  T* x;
  A *v, *gate, *beta;
  T *weight, *bias, *alpha;
};
template <class T, class A>
void gated_update_backward(CudaStream stream, const GatedUpdate<T, A>& p,
                           const RowStatistics<T>* statistics, const T* dout,
                           const GatedUpdateGradients<T, A>& gradients);

}  // namespace geores::kernels
