// Residual streams: the width of a token cut into n streams, and n × n operators on them.
#pragma once

#include <torch/torch.h>

namespace geores {

using torch::Tensor;

Tensor split_streams(const Tensor& x, int64_t n);  // (B, T, D) -> (B, T, n, D/n)
Tensor join_streams(const Tensor& x);              // (B, T, n, d) -> (B, T, n·d)

// (B, T', n, n) applied to (B, T, n, d), T' = T or 1 (one operator for the whole sequence):
// out_i = Σ_j m_ij x_j.
Tensor mix_streams(const Tensor& m, const Tensor& x);

// Σ_i weight_i x_i: weight (B, T, n), x (B, T, n, d) -> (B, T, d).
Tensor collect_streams(const Tensor& weight, const Tensor& x);

// weight_i y for every stream: weight (B, T, n), y (B, T, d) -> (B, T, n, d).
Tensor spread_to_streams(const Tensor& weight, const Tensor& y);

}  // namespace geores
