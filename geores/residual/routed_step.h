// One token at a time (TokenStep) for connections that compute the routes of a token from the token
// itself, as ops/routed/routed.h describes them:
//   raw = Norm(x) Wᵀ + b -> res, read, write;  h = LN(Σ_j read_j x_j);  x_i ← Σ_j res_ij x_j + write_i y_i
#pragma once

#include "geores/ops/routed/routed.h"
#include "geores/residual/residual.h"

namespace geores {

// All return null if StepRoutes does not support these routes.
std::unique_ptr<TokenStep> make_routed_step(const RoutedSpec& spec, int64_t batch);
std::unique_ptr<TokenStep> make_routed_step(const TanhRoutedSpec& spec, int64_t batch);

// With the same routes for all tokens: res (n, n), read (n), write (n).
std::unique_ptr<TokenStep> make_fixed_step(const Routes& routes, const Tensor& read_weight,
                                           int64_t batch);

}  // namespace geores
