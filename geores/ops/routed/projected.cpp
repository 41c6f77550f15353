#include "geores/ops/routed/projected.h"

#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/routed/wide_routes.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

// Rows up to this long are normalized for one product; longer ones are projected as they are, and the
// projections are scaled.
constexpr int64_t kNormalizedRow = 256;

bool projects_wide_rows(const Tensor& x, const NormSpec& norm) {
  if (norm.layer || norm.weight.defined()) return false;
  return runs_half_state_kernel(x) || (runs_cuda_kernel(x) && x.size(-1) > kNormalizedRow);
}

// The definition of one of them, flat.
Tensor projected_alone(const Tensor& normal, const ProjectionWeights& p) {
  auto product = linear_map(normal, p.weight);
  if (p.bias.dim() > 1) product = product.unflatten(-1, p.bias.sizes());
  return ((p.scale.defined() ? p.scale * product : product) + p.bias).flatten(-p.bias.dim());
}

}  // namespace

ProjectionAndSkip projected(const Tensor& x, const NormSpec& norm,
                            const std::vector<ProjectionWeights>& projections) {
  if (projects_wide_rows(x, norm))
    if (const auto wide = wide_projected(x, norm.epsilon, projections))
      return {wide->projected, wide->skip};
  if (x.scalar_type() == torch::kBFloat16)  // a state without kernels
    return {projected(in_full_type(x), norm, projections).projected, x};
  if (runs_cuda_kernel(x)) {
    const auto [h, skip] = norm.layer ? layer_norm_and_skip(x, norm.weight, norm.bias)
                                      : rms_norm_and_skip(x, norm.weight, norm.epsilon);
    return {projected_together(h, projections), skip};
  }
  if (!runs_cpu_kernel(x)) {
    std::vector<Tensor> parts;
    const auto normal = normalized(x, norm);
    for (const auto& p : projections) parts.push_back(projected_alone(normal, p));
    return {torch::cat(parts, -1), x};
  }
  const auto [weight, bias] = side_by_side(projections);
  return normalized_linear(x, norm, weight, bias);
}

SigmoidsAndSkip projected_sigmoids(const Tensor& x, const NormSpec& norm,
                                   const std::vector<ProjectionWeights>& projections, int64_t n,
                                   double offset) {
  if (projects_wide_rows(x, norm))
    if (const auto wide = wide_sigmoid_routes(x, norm.epsilon, projections, n, offset))
      return {wide->routes, wide->skip};
  const auto [raw, skip] = projected(x, norm, projections);
  return {sigmoid_routes(raw, n, offset), skip};
}

Tensor linear_maps(const Tensor& x, const std::vector<LinearMap>& maps) {
  std::vector<Tensor> weights, biases;
  if (!on_gpu(x)) {
    std::vector<Tensor> parts;
    for (const auto& [weight, bias] : maps) parts.push_back(linear_map(x, weight, bias));
    return torch::cat(parts, -1);
  }
  std::vector<ProjectionWeights> projections;
  int64_t rows = 0;
  for (const auto& [weight, bias] : maps) {
    projections.push_back({weight, bias, Tensor()});
    weights.push_back(weight);
    biases.push_back(bias);
    rows += weight.size(0);
  }
  if (const auto wide = wide_linear(x, projections)) return wide->projected;
  const auto none =
      (rows + 7) / 8 * 8 - rows;  // one product whose columns have an efficient number
  weights.push_back(torch::zeros({none, x.size(-1)}, x.options()));
  biases.push_back(torch::zeros({none}, x.options()));
  return linear_map(x, torch::cat(weights), torch::cat(biases)).slice(-1, 0, rows);
}

}  // namespace geores
