// The raw values of a token's routes: projections of its normalized state, in the forms that pay for
// short and for long rows on each device.
#pragma once

#include <vector>

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/routed/route_maps.h"
#include "geores/ops/torch.h"

namespace geores {

// The outputs of all projections of Norm(x), flat and side by side: x (..., in) -> (..., Σ
// bias.numel()), and x itself for its other uses; their gradients are added in the same pass. x may be
// a bfloat16 state.
ProjectionAndSkip projected(const Tensor& x, const NormSpec& norm,
                            const std::vector<ProjectionWeights>& projections);

// The same, taken apart by sigmoid_routes(): on a GPU without joined values of their own.
struct SigmoidsAndSkip {
  SigmoidRoutes routes;
  Tensor skip;
};
SigmoidsAndSkip projected_sigmoids(const Tensor& x, const NormSpec& norm,
                                   const std::vector<ProjectionWeights>& projections, int64_t n,
                                   double offset);

// W x + b of several maps of the same x without norm, side by side.
Tensor linear_maps(const Tensor& x, const std::vector<LinearMap>& maps);

}  // namespace geores
