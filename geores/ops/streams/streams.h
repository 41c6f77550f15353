// Residual streams: the width of a token split into n streams, and n × n operators on them.
#pragma once

#include "geores/ops/dense/norm.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

Tensor split_streams(const Tensor& x, int64_t n);  // (B, T, D) -> (B, T, n, D/n)
Tensor join_streams(const Tensor& x);              // (B, T, n, d) -> (B, T, n·d)

// (B, T', n, n) applied to (B, T, n, d), T' = T or 1 (one operator for the whole sequence):
// out_i = Σ_j m_ij x_j.
Tensor mix_streams(const Tensor& m, const Tensor& x);

// The same with LN of the result: m (B, T', n, n), x (B, T, n·d) -> skip = M x (B, T, n·d),
// normalized = LN(M x). The fused form makes one pass over x forward and one backward.
NormAndSkip mix_and_norm(const Tensor& m, const Tensor& x, const Tensor& weight,
                         const Tensor& bias = {});

// Σ_i weight_i x_i: weight (B, T, n), x (B, T, n, d) -> (B, T, d).
Tensor collect_streams(const Tensor& weight, const Tensor& x);

// The sublayer's input: LN(Σ_j read_j x_j), repeated `tiles` times before the norm.
//   read (B, T, n), x (B, T, n, d), weight (tiles·d) -> normalized (B, T, tiles·d), skip = x
NormAndSkip collect_and_norm(const Tensor& read, const Tensor& x, const Tensor& weight,
                             int64_t tiles = 1);

// The state after a sublayer: Σ_j res_ij x_j + write_i y_i in one pass.
//   res (B, T, n, n), x (B, T, n, d), write (B, T, n), y (B, T, d) for all streams or (B, T, n, d)
Tensor mix_and_write(const Tensor& res, const Tensor& x, const Tensor& write, const Tensor& y);

// weight_i y for every stream: weight (B, T, n), y (B, T, d) -> (B, T, n, d).
Tensor spread_to_streams(const Tensor& weight, const Tensor& y);

// 1 − ‖XXᵀ‖²_F / tr(XXᵀ)² of each token's n × d stream matrix: (B, T, n, d) -> (B, T, 1).
Tensor stream_entropy(const Tensor& streams);

}  // namespace geores
