// Projections of long rows on a GPU (kernels/routed/wide_projection.h), with one pass over the state.
// Each returns nullopt where no kernel fits.
#pragma once

#include <optional>
#include <vector>

#include "geores/ops/dense/projections.h"
#include "geores/ops/routed/route_maps.h"
#include "geores/ops/torch.h"

namespace geores {

// All projections of x / rms(x), concatenated: x (..., width) -> projected (..., Σ bias.numel()),
// and x itself for its other uses; their gradients are added in the same pass. No normalized copy
// of x is stored, and products have the precision of the state's type in every mode.
struct WideProjected {
  Tensor projected, skip;
};
std::optional<WideProjected> wide_projected(const Tensor& x, double epsilon,
                                            const std::vector<ProjectionWeights>& projections);

// The same with sigmoid_routes() (route_maps.h) of the result, n > 0.
struct WideSigmoidRoutes {
  SigmoidRoutes routes;
  Tensor skip;
};
std::optional<WideSigmoidRoutes> wide_sigmoid_routes(
    const Tensor& x, double epsilon, const std::vector<ProjectionWeights>& projections, int64_t n,
    double offset);

// The same for x itself.
std::optional<WideProjected> wide_linear(const Tensor& x,
                                         const std::vector<ProjectionWeights>& projections);

}  // namespace geores
