// Routing around a sublayer, for connections that compute the routes of a token (routes.h) from the
// token itself, in two operations: routes and the sublayer's input, then mixing and writing. The
// backward pass makes two or three passes over the state on a GPU and two on a CPU; separate
// operations would make five (kernels/routed/).
#pragma once

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/route_maps.h"
#include "geores/ops/routed/routes.h"

namespace geores {

struct GuardedRouting {
  int64_t iterations;
};

// Hyper-connections: read = σ(raw), write = 2σ(raw), and a mixer from the other values.
struct SinkhornRouting {  // mHC; rows last if the mixer comes from a GPU kernel
  SinkhornSpec spec;
};
struct PermutationRouting {};  // mHC-lite
struct SphereRouting {};       // sHC with fixed amplitudes: left, right, singular
// No kernel on a GPU:
struct FreeRouting {};      // res = the other raw values
struct IdentityRouting {};  // res = I

using Routing = std::variant<CayleyRouting, GuardedRouting, StreamRouting, SinkhornRouting,
                             PermutationRouting, SphereRouting, FreeRouting, IdentityRouting>;

struct RoutedSpec {
  int64_t streams;
  NormSpec norm;                               // of the state
  std::vector<ProjectionWeights> projections;  // from the normalized state to raw values
  Routing routing;                             // from raw values to routes
  Tensor read_weight{};  // of the LayerNorm of the sublayer's input: (d), or (n·d) for n copies
};

// The hyper-connections of Zhu et al.: RMSNorm of each stream separately, the same projections for
// all streams, and routes by tanh_routes() (route_maps.h).
struct TanhRoutedSpec {
  Tensor pre, res, post;  // weights (1, d), (n, d), (1, d)
  TanhRoutes routes;
  Tensor read_weight;  // of the LayerNorm of the sublayer's input: (d)
  double epsilon = 0;  // of the RMSNorm
};

// The results of the first operation, for the sublayer and the second operation:
//     if (const auto routed = Routed::make(x, spec)) return routed->write(f(routed->normalized()));
//
// The gradient of out_i = Σ_j res_ij x_j + write_i y_i with respect to x is Σ_i res_ij dout_i. The
// two operations share that work: the backward pass of write() passes dout on unmixed, and the
// backward pass of make() mixes it in the pass that computes the gradients of res, read and x. The
// gradients of the carried state, res and read are therefore correct only inside of this class: all
// three are private, and normalized() and write() are the only ways from x to a loss. Both may be
// called any number of times.
class Routed {
 public:
  // x (B, T, n·d). nullopt where no kernel fits: the connection then runs separate operations.
  static std::optional<Routed> make(const Tensor& x, const RoutedSpec& spec);
  static std::optional<Routed> make(const Tensor& x, const TanhRoutedSpec& spec);  // x (B, T, n, d)

  // The sublayer's input: (B, T, d) or (B, T, n·d).
  const Tensor& normalized() const { return normalized_; }

  // Σ_j res_ij x_j + write_i y_i (B, T, n, d): y (B, T, d), or (B, T, n, d) with one for each stream.
  Tensor write(const Tensor& y) const;

  // The values of the routes, without gradients: for probes.
  Routes routes() const {
    return {.res = routes_.res, .read = routes_.read, .write = routes_.write.detach()};
  }

 private:
  // The form of one kernel each way: four streams and products in bfloat16, on a GPU
  // (token_routes.cpp).
  static std::optional<Routed> by_token(const Tensor& x, const RoutedSpec& spec);
  static std::optional<Routed> by_passes(const Tensor& x, const RoutedSpec& spec);  // on a GPU
  static std::optional<Routed> on_cpu(const Tensor& x, const RoutedSpec& spec);  // routed_cpu.cpp

  // `carried`: x as an output of the first operation, (B, T, n·d).
  Routed(Tensor normalized, const Tensor& carried, Routes routes);

  Tensor normalized_;
  Tensor state_;   // (B, T, n, d)
  Routes routes_;  // res and read are not differentiable
};

}  // namespace geores
