// Measures of matrices, token states and maps: pure functions, double precision inside, whatever the dtype
// of their arguments; on the CPU, but for stream_cosine. Leading axes are a batch.
#pragma once

#include <functional>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// (..., r, c) -> (..., min(r, c)), descending.
Tensor singular_values(const Tensor& a);

// ‖AᵀA − I‖₂ = max_i |σ_i² − 1| for square A: (..., n, n) -> (...).
Tensor orthogonality_defect(const Tensor& a);

// max_ij |AᵀA − I|_ij over the whole batch.
double largest_orthogonality_error(const Tensor& a);

// Effective rank of token matrices (Roy and Vetterli 2007; MGT Eq. 8 is read as this):
//   exp(−Σ_i p_i ln p_i),  p_i = σ_i / Σ_j σ_j           tokens (..., T, W) -> (...)
// 1 for rank one, k for k equal singular values, 0 for the zero matrix. Not centred.
Tensor effective_rank(const Tensor& tokens);

// Effective rank over min(T, W), as MGT Eq. 8 prints it: 1 only for equal singular values. Of i.i.d.
// Gaussian values 0.806 for 256 × 256 and 0.928 for 128 × 256.
// For the many large states of a report: from the eigenvalues of XXᵀ or XᵀX, within 1e-6; singular values
// below about 1e-7 of the largest count as 0.
Tensor relative_rank(const Tensor& tokens);

// Mean cosine between different streams of a token: (..., n, d) -> (...), n >= 2. A stream that is
// zero counts as orthogonal to all.
Tensor stream_cosine(const Tensor& streams);

// √(mean of the squared values of a token): (..., W) -> (...).
Tensor token_rms(const Tensor& states);

// Jacobian by reverse differentiation: of the output at `position` with respect to the input at the
// same position, all other positions held fixed.
//   map (B, T, ...) -> (B, T, ...) without coupling between sequences, state (1, T, ...)
//   -> (V, V) double, V values per position, row = output
// Cost: V forward and backward passes of one sequence, `rows` at a time. Works inside a NoGradGuard
// and leaves the gradients of parameters alone.
Tensor jacobian(const std::function<Tensor(const Tensor&)>& map, const Tensor& state,
                int64_t position, int64_t rows = 64);

}  // namespace geores
