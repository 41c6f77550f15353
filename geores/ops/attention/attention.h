// The core of multi-head attention, between its projections:
//   qkv (B, T, 3·w), heads  ->  softmax(q kᵀ/√(w/h) + mask) v, (B, T, w)
// The composed form stores (B, h, T, T) scores. The fused form stores T values per head, and with a
// causal mask it skips the upper triangle.
#pragma once

#include "geores/ops/attention/rotary.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

Tensor causal_attention(const Tensor& qkv, int64_t heads);

// The composed core for queries that follow `keys.size(2) − queries.size(2)` earlier positions:
// queries (B, h, T, d), keys and values (B, h, past + T, d) -> (B, T, h·d).
Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values);

// Attention over all pairs of positions, without a mask; with tables, queries and keys get rotary
// positions first.
Tensor full_attention(const Tensor& qkv, int64_t heads, const RotaryTables& tables = {});

}  // namespace geores
