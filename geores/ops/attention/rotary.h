// Heads of queries, keys and values with rotary positions (Su et al., arXiv:2104.09864): the vector
// at position m is rotated by m·f_i in the plane of its values i and i + d/2,
//   f_i = θ^(−2i/d),  i < d/2
//   x'_i       = x_i cos(m f_i) − x_{i+d/2} sin(m f_i)
//   x'_{i+d/2} = x_{i+d/2} cos(m f_i) + x_i sin(m f_i)
// so the product of a query at m and a key at n depends on m − n only.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// cos and sin of position times frequency, (S, head/2) each; the positions are first, first + 1, ...
struct RotaryTables {
  Tensor cosine, sine;  // undefined: no rotary positions
};
RotaryTables rotary_tables(int64_t positions, int64_t head_width, double theta, const Tensor& like,
                           int64_t first = 0);

inline constexpr double kRotaryBase = 10000;  // the default θ

// x: (..., S, d), d even, turned by its positions first, first + 1, ... with θ = kRotaryBase.
Tensor rotate_by_position(const Tensor& x, int64_t first);

struct Heads {
  Tensor q, k, v;  // (B, h, S, d) each
};

// qkv (B, S, 3·h·d) = [all q | all k | all v]. The pair (i, i + d/2) of q and k is rotated in the
// type of the tables and rounded to that of qkv.
Heads split_heads(const Tensor& qkv, int64_t heads, const RotaryTables& tables = {});

}  // namespace geores
