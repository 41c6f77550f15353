// The inputs of DDL's sublayer and its delta rule (delta_streams.h) from a token, on a GPU, and back:
//   c = Σ_j weight_j X_j,   h = LN(c) ⊙ norm_weight,   l = [β; V] c + bias
//   X (tokens, n, d); c is not stored; h (tokens, d); l (tokens, 1 + n); β (1, d), V (n, d)
// The backward pass follows that of delta_streams_backward, and writes the gradient of X once: its own
// part and the delta rule's, dX_j = dX'_j − dv_j y/‖y‖ + weight_j dc.
#pragma once

#include "geores/kernels/norms/norm.h"
#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

// n is one of is_wide_stream_count.
inline constexpr int64_t kMostDeltaRead = 1024;  // values of a stream

template <class T>
struct DeltaReadParameters {
  T *weight, *norm_weight;                   // (n), (d)
  T *beta, *beta_bias, *value, *value_bias;  // (1, d), (1), (n, d), (n)
};

template <class T, class A>
void delta_read_forward(CudaStream stream, const DeltaReadParameters<const T>& parameters,
                        const T* x, A* h, RowStatistics<T>* statistics, T* l,
                        const StreamShape& shape);

// y and dv are null where the state was not written to by the delta rule; then dout is the gradient of
// X itself, null: 0.
template <class T, class A>
struct DeltaReadBackward {
  DeltaReadParameters<const T> parameters;
  const T* x;
  const RowStatistics<T>* statistics;
  const A *h, *dh;
  const T *dl, *dout;
  const A* y;
  const T* dv;                       // (tokens, 1 + n); its first column is not read
  T* dx;                             // overwritten
  DeltaReadParameters<T> gradients;  // added to
};
template <class T, class A>
void delta_read_backward(CudaStream stream, const DeltaReadBackward<T, A>& p,
                         const StreamShape& shape);

}  // namespace geores::kernels
