// Attention of all heads of a batch, softmax(q kᵀ/√d + mask) v, with a causal mask or without one.
//   qkv (B, T, 3, h, d) as a projection leaves it; out (B, T, h, d)
// The kernel multiplies a tile of queries at a time with the keys that it sees, with a mask those up
// to the tile's last position: nothing of size T × T exists, and weights above the diagonal are not
// computed. The backward pass
// recomputes the weights from log_sum (B, h, T), the logarithm of each row's sum of exponentials.
// Each thread needs O(T · (d + block)) of working memory. P is the type that factors of products
// are rounded to: T itself, or BFloat16 with float.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

struct AttentionShape {
  int64_t batch, length, heads, head_width;
  bool causal = true;
};

// log_sum may be null if no backward pass will follow.
template <class T, class P = T>
void attention_forward(const T* qkv, T* out, T* log_sum, const AttentionShape& shape);

template <class T, class P = T>
void attention_backward(const T* qkv, const T* out, const T* log_sum, const T* dout, T* dqkv,
                        const AttentionShape& shape);

// One new position against `length` cached ones (the new one included), for each sequence and head:
//   q (B, h, d), sequences `stride` apart; keys, values (B, h, capacity, d); out (B, h, d)
template <class T>
void attend_one(const T* q, int64_t q_stride, const T* keys, const T* values, T* out,
                int64_t capacity, int64_t length, const AttentionShape& shape);

// On a GPU, causal, in bfloat16; log_sum (B, h, T) is in units of log 2. A head's keys and values must fit
// a block's shared memory, in the backward pass its queries and output gradients too.
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

// On a GPU, causal, forward only: factors rounded to tf32, everything else in float.
void causal_attention_tf32(CudaStream stream, const float* qkv, float* out,
                           const AttentionShape& shape);

}  // namespace geores::kernels
