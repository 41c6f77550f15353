// Causal attention of all heads of a batch, softmax(q kᵀ/√d + causal mask) v.
//   qkv (B, T, 3, h, d) as a projection leaves it; out (B, T, h, d)
// A tile of queries at a time against the keys up to its last position: nothing of size T × T
// exists, and what lies above the diagonal is not computed. The backward pass recomputes the
// weights from log_sum (B, h, T), the logarithm of each row's sum of exponentials. Working space
// per thread: O(T · (d + block)).
#pragma once

#include <cstdint>

namespace geores::kernels {

struct AttentionShape {
  int64_t batch, length, heads, head_width;
};

// log_sum may be null when there will be no backward.
template <class T>
void causal_attention_forward(const T* qkv, T* out, T* log_sum, const AttentionShape& shape);

template <class T>
void causal_attention_backward(const T* qkv, const T* out, const T* log_sum, const T* dout, T* dqkv,
                               const AttentionShape& shape);

// One new position against `length` cached ones (the new one included), per sequence and head:
//   q (B, h, d) with rows `stride` apart per sequence; keys, values (B, h, capacity, d); out (B, h,
//   d)
template <class T>
void attend_one(const T* q, int64_t q_stride, const T* keys, const T* values, T* out,
                int64_t capacity, int64_t length, const AttentionShape& shape);

}  // namespace geores::kernels
