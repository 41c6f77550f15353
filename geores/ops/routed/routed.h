// A token's way to its sublayer and back, for connections whose routes (routes.h) are made of the
// token itself, as two operations: routes and what the sublayer reads, then mixing and writing. The
// backward pass goes over the state two or three times on a GPU and twice on a CPU, where
// operations one by one would five times (kernels/token_routes.h, routed_passes.h,
// routed_streams.h).
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/routed/routes.h"

namespace geores {

struct GuardedRouting {
  int64_t iterations;
};

struct RoutedSpec {
  int64_t streams;
  NormSpec norm;                                        // of the state, before
  std::vector<ProjectionWeights> projections;           // the raw values, which
  std::variant<CayleyRouting, GuardedRouting> routing;  // makes routes of
  Tensor read_weight{};  // of the LayerNorm of what the sublayer reads: (d), or (n·d) for n copies
};

struct Routed {
  Tensor normalized;  // what the sublayer reads, (B, T, d) or (B, T, n·d)
  Tensor state;       // x (B, T, n, d), for write_routed() and nobody else
  Routes routes;      // res and read without gradient: theirs is worked out with that of the state
};

// x (B, T, n·d); nothing where there is no such form: then it is operations one by one.
std::optional<Routed> route_fused(const Tensor& x, const RoutedSpec& spec);
std::optional<Routed> route_on_gpu(const Tensor& x, const RoutedSpec& spec);
// One kernel each way (kernels/token_routes.h): four streams and products in bfloat16.
std::optional<Routed> route_by_token(const Tensor& x, const RoutedSpec& spec);
std::optional<Routed> route_on_cpu(const Tensor& x, const RoutedSpec& spec);  // Cayley routes only

// Σ_j res_ij x_j + write_i y_i: y (B, T, d), or (B, T, n, d) with one for each stream.
Tensor write_routed(const Routed& routed, const Tensor& y);

}  // namespace geores
