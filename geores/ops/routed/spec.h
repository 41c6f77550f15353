// A routed connection as data: how a token's routes (routes.h) follow from the token, and how its
// sublayer reads. A connection describes itself by a RoutedSpec, and Routed (routed.h) takes every
// token to its sublayer and back by it.
//   raw = projections of Norm(x)        res, read, write = routing of raw
//   h = Norm(Σ_j read_j x_j)            x_i ← Σ_j res_ij x_j + write_i F(h)
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/route_maps.h"
#include "geores/ops/routed/routes.h"

namespace geores {

// Hyper-connections: raw = [pre | post | the mixer's], read = σ(pre) + read_offset, write = 2σ(post),
// and the mixer makes res. Each of these is one mixer.
struct SinkhornRouting {  // mHC
  SinkhornSpec spec;
};
struct GuardedRouting {  // the EΔ paper's mHC
  int64_t iterations;
};
struct SoftmaxSinkhornRouting {  // DeepSeek-V4
  int64_t iterations;
  double guard;
};
struct PermutationRouting {  // mHC-lite
  Tensor permutations;       // (n!, n²)
};
struct SphereRouting {  // sHC: left, right (from three streams on), singular
  Tensor helmert;       // (n, n−1)
  Tensor skew_basis{};  // (k, (n−1)²): entry -> skew matrix; undefined for two streams
  Tensor left_amplitude{}, right_amplitude{};  // undefined: 1
};
struct FreeRouting {};      // res = the mixer's raw values
struct IdentityRouting {};  // res = I
// Any other mixer, without kernels of its own: res (B, T, n, n) from the outputs of the mixer's
// projections, in their order and in the shapes of their biases.
struct MixerRouting {
  std::function<Tensor(const std::vector<Tensor>& projected)> mixing;
};

// Softmax routes (routes.h), from one projection: CayleyRouting and StreamRouting, or with any res
// (B, T, n, n), made of x itself before the routes; skip is x for its other uses.
struct SoftmaxRouting {
  struct Mixed {
    Tensor res, skip;
  };
  std::function<Mixed(const Tensor& x)> mixing;
  double temperature = 1.0;
};

// Zhu et al.'s hyper-connections: norm and projections are those of each stream by itself, the same
// for all of them, and tanh_routes() (route_maps.h) makes the routes. The projections are (1, d),
// (n, d) and (1, d), without bias.
struct TanhRouting {
  TanhRoutes routes;
};

// The same routes for all tokens: res (n, n), read and write (n). No projections.
struct FixedRouting {
  Routes routes;
};

using Routing =
    std::variant<CayleyRouting, GuardedRouting, StreamRouting, SinkhornRouting,
                 SoftmaxSinkhornRouting, PermutationRouting, SphereRouting, FreeRouting,
                 IdentityRouting, MixerRouting, SoftmaxRouting, TanhRouting, FixedRouting>;

// The norm of the sublayer's input.
struct ReadNormSpec {
  enum class Kind { layer, rms, none } kind = Kind::layer;
  Tensor weight{};  // undefined: 1
  double epsilon = 1e-5;
};

struct RoutedSpec {
  int64_t streams, width;                      // n streams of d values
  NormSpec norm{.layer = false};               // of the state
  std::vector<ProjectionWeights> projections;  // from the normalized state to raw values
  Routing routing;                             // from raw values to routes
  ReadNormSpec read_norm{};
  int64_t tiles =
      1;  // the sublayer reads so many copies of a stream, with one norm; it then writes
          // each stream separately
  double read_offset = 0;
  // The sublayer reads with the weights of the connection before (State::read), at first stream 0 alone,
  // and the routes' read is left to the next one.
  bool reads_late = false;
};

}  // namespace geores
