// Heads of queries, keys and values with rotary positions (Su et al., arXiv:2104.09864).
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// cos and sin of position times frequency, (S, head/2) each.
struct RotaryTables {
  Tensor cosine, sine;  // undefined: no rotary positions
};
RotaryTables rotary_tables(int64_t positions, int64_t head_width, double theta, const Tensor& like);

struct Heads {
  Tensor q, k, v;  // (B, h, S, d) each
};

// qkv (B, S, 3·h·d) = [all q | all k | all v]. The pair (i, i + d/2) of q and k turns, in the type of
// the tables, and is rounded to that of qkv.
Heads split_heads(const Tensor& qkv, int64_t heads, const RotaryTables& tables = {});

}  // namespace geores
