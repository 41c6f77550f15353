// Heads with rotary positions (Su et al., arXiv:2104.09864). The pair (i, i + d/2) of a query
// or key at position s turns by an angle whose cosine and sine are in tables (S, d/2).
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

struct HeadsShape {
  int64_t batch, length, heads, head_width;  // head_width is even
};

// On a CPU: qkv (B, S, 3, h, d) with its queries and keys turned, or turned back, as gradients are.
// `out` may be qkv.
enum class Turn { forth, back };
template <class T>
void turn_heads(const T* qkv, const T* cosine, const T* sine, T* out, const HeadsShape& shape,
                Turn turn);

// On a GPU: qkv (B, S, 3, h, d) -> q, k (turned) and v, (B, S, h, d) each. Null tables: nothing turns; null v: it
// stays where it is.
template <class T, class A>
void split_heads_forward(CudaStream stream, const A* qkv, const T* cosine, const T* sine, A* q,
                         A* k, A* v, const HeadsShape& shape);

// The gradient of qkv from those of q, k and v.
template <class T, class A>
void split_heads_backward(CudaStream stream, const A* dq, const A* dk, const A* dv, const T* cosine,
                          const T* sine, A* dqkv, const HeadsShape& shape);

}  // namespace geores::kernels
