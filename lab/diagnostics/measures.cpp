#include "lab/diagnostics/measures.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "geores/base/error.h"
#include "geores/kernels/cpu/blas.h"

namespace geores {
namespace {

Tensor exact(const Tensor& a) { return a.detach().to(torch::kCPU, torch::kFloat64); }

// Whole states stay where they are: on a GPU they are large, and its double precision is as good.
Tensor exact_where_it_is(const Tensor& a) { return a.detach().to(torch::kFloat64); }

// exp of the entropy of σ / Σσ
Tensor rank_of(const Tensor& sigma) {
  const auto total = sigma.sum(-1, /*keepdim=*/true);
  const auto p = sigma / torch::where(total > 0, total, torch::ones_like(total));
  const auto rank = torch::exp(-torch::xlogy(p, p).sum(-1));
  // The zero matrix has rank 0; NaN stays NaN.
  return torch::where(total.squeeze(-1) == 0, torch::zeros_like(rank), rank);
}

// Of symmetric matrices (..., n, n) on the CPU, ascending. One thread a matrix: a GPU, and the threads of a
// LAPACK library, take them one after the other.
Tensor eigenvalues(const Tensor& a) {
  const auto n = a.size(-1);
  const auto matrices = a.reshape({-1, n, n});
  const kernels::SerialBlas serial;
  auto values = torch::empty({matrices.size(0), n}, a.options());
  at::parallel_for(0, matrices.size(0), 1, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) values[i].copy_(torch::linalg_eigvalsh(matrices[i]));
  });
  auto shape = a.sizes().vec();
  shape.pop_back();
  return values.reshape(shape);
}

}  // namespace

Tensor singular_values(const Tensor& a) { return torch::linalg_svdvals(exact(a)); }

Tensor orthogonality_defect(const Tensor& a) {
  return (singular_values(a).square() - 1).abs().amax(-1);
}

double largest_orthogonality_error(const Tensor& a) {
  const auto x = exact(a);
  const auto error = x.transpose(-1, -2).matmul(x) - torch::eye(x.size(-1), x.options());
  return error.abs().max().item<double>();
}

Tensor effective_rank(const Tensor& tokens) { return rank_of(singular_values(tokens)); }

Tensor relative_rank(const Tensor& tokens) {
  const auto x = exact_where_it_is(tokens);
  const auto y = x.size(-2) <= x.size(-1) ? x : x.transpose(-1, -2);
  const auto lambda = eigenvalues(y.matmul(y.transpose(-1, -2)).to(torch::kCPU));
  const auto rounding = static_cast<double>(y.size(-2)) * std::numeric_limits<double>::epsilon() *
                        lambda.amax(-1, /*keepdim=*/true);
  const auto squares = torch::where(lambda <= rounding, torch::zeros_like(lambda), lambda);
  return rank_of(squares.sqrt()) / static_cast<double>(y.size(-2));
}

Tensor stream_cosine(const Tensor& streams) {
  const auto n = streams.size(-2);
  require(n >= 2, "stream_cosine", "streams must be >= 2, got {}", n);
  const auto x = exact_where_it_is(streams);
  const auto norm = x.norm(2, -1, /*keepdim=*/true);
  const auto unit = x / torch::where(norm > 0, norm, torch::ones_like(norm));
  const auto cosine = unit.matmul(unit.transpose(-1, -2));
  const auto same = cosine.diagonal(0, -2, -1).sum(-1);
  return (cosine.sum({-1, -2}) - same) / static_cast<double>(n * (n - 1));
}

Tensor token_rms(const Tensor& states) { return exact(states).square().mean(-1).sqrt(); }

Tensor jacobian(const std::function<Tensor(const Tensor&)>& map, const Tensor& state,
                int64_t position, int64_t rows) {
  require(state.dim() >= 2 && state.size(0) == 1, "jacobian", "needs one sequence, got {}",
          state.size(0));
  require(position >= 0 && position < state.size(1), "jacobian",
          "position {} is not one of {} positions", position, state.size(1));
  const torch::AutoGradMode with_gradient(true);
  const auto values = state.select(1, position).numel();
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < values; begin += rows) {
    const auto count = std::min(rows, values - begin);
    std::vector<int64_t> copies(state.dim(), 1);
    copies[0] = count;
    // Copy i of the sequence carries the gradient of output value begin + i.
    const auto input = state.detach().repeat(copies).requires_grad_(true);
    const auto output = map(input).select(1, position).reshape({count, values});
    const auto picked = output.slice(1, begin, begin + count).diagonal().sum();
    const auto gradient = torch::autograd::grad({picked}, {input})[0];
    parts.push_back(exact(gradient.select(1, position).reshape({count, values})));
  }
  return torch::cat(parts);
}

}  // namespace geores
