// JPmHC's softmax routes of long rows on a GPU (kernels/routed/softmax_routes.h): norm, projection,
// softmaxes and Cayley map without storing the normalized state.
#pragma once

#include <optional>

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/routed/routes.h"
#include "geores/ops/torch.h"

namespace geores {

// The generator of a token's raw values, norm → Linear: weight (2n² or 3n², width); bias may be
// undefined. The norm is LN with weight and bias, or x / sqrt(mean x² + epsilon) without.
struct RouteGenerator {
  NormSpec norm;
  Tensor weight, bias;
};

struct SoftmaxRoutes {
  Routes
      routes;  // as cayley_routes() computes them from the raw values; res is undefined without a mixer
  Tensor skip;  // x for its other uses; their gradients are added in the same pass
};

// x (B, T, width). A generator of 2n² outputs has no mixer: alpha, iterations and exact of the
// routing are ignored. nullopt where no kernel fits; the connection then runs composed.
std::optional<SoftmaxRoutes> wide_softmax_routes(const Tensor& x, const RouteGenerator& generator,
                                                 int64_t n, const CayleyRouting& routing);

}  // namespace geores
