// Causal attention of all heads of a batch, softmax(q kᵀ/√d + causal mask) v.
//   qkv (B, T, 3, h, d) as a projection leaves it; out (B, T, h, d)
// A tile of queries at a time against the keys up to its last position: nothing of size T × T
// exists, and what lies above the diagonal is not computed. The backward pass recomputes the
// weights from log_sum (B, h, T), the logarithm of each row's sum of exponentials. Working space
// per thread: O(T · (d + block)). P is what the factors of the products are rounded to: T itself,
// or BFloat16 beside float.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

struct AttentionShape {
  int64_t batch, length, heads, head_width;
};

// log_sum may be null when there will be no backward.
template <class T, class P = T>
void causal_attention_forward(const T* qkv, T* out, T* log_sum, const AttentionShape& shape);

template <class T, class P = T>
void causal_attention_backward(const T* qkv, const T* out, const T* log_sum, const T* dout, T* dqkv,
                               const AttentionShape& shape);

// One new position against `length` cached ones (the new one included), per sequence and head:
//   q (B, h, d) with rows `stride` apart per sequence; keys, values (B, h, capacity, d); out (B, h,
//   d)
template <class T>
void attend_one(const T* q, int64_t q_stride, const T* keys, const T* values, T* out,
                int64_t capacity, int64_t length, const AttentionShape& shape);

// On a GPU in bfloat16; log_sum (B, h, T) in units of log 2. Keys, values and, backward, queries
// and gradients of a head must fit a block's shared memory.
inline constexpr int64_t kAttentionStep = 32;
constexpr int64_t padded_attention_length(int64_t length) {
  return (length + kAttentionStep - 1) / kAttentionStep * kAttentionStep;
}
constexpr bool attention_fits_device(int64_t length, int64_t head_width) {
  return (head_width == 32 || head_width == 64) &&
         padded_attention_length(length) * (4 * (head_width + 8) * 2 + 8) <= 200 * 1024;
}
void causal_attention_forward(CudaStream stream, const BFloat16* qkv, BFloat16* out, float* log_sum,
                              const AttentionShape& shape);
void causal_attention_backward(CudaStream stream, const BFloat16* qkv, const BFloat16* out,
                               const float* log_sum, const BFloat16* dout, BFloat16* dqkv,
                               const AttentionShape& shape);

// On a GPU without a backward pass: factors rounded to tf32, sums and the rest in float.
void causal_attention_tf32(CudaStream stream, const float* qkv, float* out,
                           const AttentionShape& shape);

}  // namespace geores::kernels
