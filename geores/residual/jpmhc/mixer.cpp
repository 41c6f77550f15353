#include "geores/residual/jpmhc/mixer.h"

#include <cmath>

#include "geores/base/error.h"
#include "geores/modules/layers.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/softmax_routes.h"
#include "geores/ops/run/precision.h"
#include "geores/residual/iterations.h"
#include "geores/residual/jpmhc/grassmann.h"
#include "geores/residual/jpmhc/sigmoid_routing.h"

namespace geores {
namespace {

constexpr double kGeneratorEps = 1e-5;  // of the norm without weights

// norm → one Linear(D, outputs), the input of the softmax routes and, for the Cayley mixers, of
// H_res. The norm is an affine LayerNorm, or RMS without weights (generator_norm). Both are
// submodules of the mixer, named norm and fused.
class Generator {
 public:
  Generator(torch::nn::Module& mixer, int64_t width, int64_t outputs, const JpmhcOptions& options) {
    if (options.generator_norm == "affine")
      norm_ = mixer.register_module("norm", std::make_shared<LayerNorm>(width, true));
    fused_ =
        mixer.register_module("fused", make_linear(width, outputs, options.bias, options.init_std));
  }

  ProjectionAndSkip forward(const Tensor& x) const {
    if (x.scalar_type() == torch::kBFloat16)  // kernels do not support such a state
      return {forward(in_full_type(x)).projected, x};
    if (norm_) return normalized_linear(x, norm(), fused_->weight, fused_->bias);
    return {linear_map_to(rms_normalize(x, kGeneratorEps), fused_->weight, fused_->bias,
                          x.scalar_type()),
            x};
  }

  // Its routes on a GPU; nullopt where no kernel fits.
  std::optional<JpmhcRoutes> routes(const Tensor& x, int64_t n,
                                    const CayleyRouting& routing) const {
    const auto made = wide_softmax_routes(
        x,
        {.norm = norm_ ? norm() : NormSpec{.layer = false, .epsilon = kGeneratorEps},
         .weight = fused_->weight,
         .bias = fused_->bias},
        n, routing);
    if (!made) return std::nullopt;
    return JpmhcRoutes{.routes = made->routes, .skip = made->skip};
  }

  bool affine() const { return norm_ != nullptr; }
  NormSpec norm() const {
    return {.layer = true, .weight = norm_->weight(), .bias = norm_->bias()};
  }
  ProjectionWeights weights() const {
    return {.weight = fused_->weight, .bias = fused_->bias, .scale = {}};
  }

 private:
  std::shared_ptr<LayerNorm> norm_;
  torch::nn::Linear fused_{nullptr};
};

// The generator's output [H̃_pre | H̃_post | H̃_res].
class CayleyMixer final : public JpmhcMixer {
 public:
  CayleyMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : n_(n), options_(options), generator_(*this, width, 3 * n * n, options) {}

  JpmhcRoutes route(const Tensor& x) override {
    if (const auto made = generator_.routes(x, n_, routing())) return *made;
    const auto [raw, skip] = generator_.forward(x);
    return {.routes = cayley_routes(raw, n_, routing()), .skip = skip};
  }

  std::optional<RoutedSpec> spec() const override {
    if (!generator_.affine()) return std::nullopt;
    return RoutedSpec{.streams = n_,
                      .norm = generator_.norm(),
                      .projections = {generator_.weights()},
                      .routing = routing()};
  }

 private:
  CayleyRouting routing() const {
    return {.temperature = options_.temperature,
            .alpha = options_.cayley_alpha,
            .iterations = options_.cayley_iterations,
            .exact = options_.mixer == "cayley_exact"};
  }

  int64_t n_;
  JpmhcOptions options_;
  Generator generator_;
};

Tensor doubly_stochastic_start(int64_t n) { return 8 * torch::eye(n) - 8; }

// Controls that JPmHC's paper lacks: the softmax routes of the Cayley mixers with another H_res:
// the identity, or Sinkhorn's matrix from a separate projection.
class SoftmaxRouting : public JpmhcMixer {
 public:
  SoftmaxRouting(int64_t width, int64_t n, const JpmhcOptions& options)
      : n_(n), temperature_(options.temperature), generator_(*this, width, 2 * n * n, options) {}

  JpmhcRoutes route(const Tensor& x) final {
    auto [res, state] = mixing(x);
    if (auto made = generator_.routes(state, n_, {.temperature = temperature_})) {
      made->routes.res = res;
      return *made;
    }
    const auto [raw, skip] = generator_.forward(state);
    const auto [read, write] = softmax_read_write(raw, n_, temperature_);
    return {.routes = {.res = res, .read = read, .write = write}, .skip = skip};
  }

 protected:
  struct Mixing {
    Tensor res, skip;  // H_res (B, T, n, n), and x for its other uses
  };
  virtual Mixing mixing(const Tensor& x) = 0;
  int64_t streams() const { return n_; }

 private:
  int64_t n_;
  double temperature_;
  Generator generator_;
};

class IdentityMixer final : public SoftmaxRouting {
 public:
  using SoftmaxRouting::SoftmaxRouting;
  InitialMap initial_map() const override { return InitialMap::identity; }

 private:
  Mixing mixing(const Tensor& x) override {
    const auto identity = torch::eye(streams(), x.options().dtype(full_type(x.scalar_type())));
    return {identity.expand({x.size(0), x.size(1), -1, -1}), x};
  }
};

class SinkhornSoftmaxMixer final : public SoftmaxRouting {
 public:
  SinkhornSoftmaxMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : SoftmaxRouting(width, n, options),
        iterations_(options.sinkhorn_iterations),
        gradient_(sinkhorn_gradient_from(options.sinkhorn_gradient)),
        res_(register_module("res",
                             std::make_shared<ScaledProjection>(width, doubly_stochastic_start(n),
                                                                torch::full({n, 1}, 0.01)))) {}
  InitialMap initial_map() const override { return InitialMap::near_identity; }

 private:
  Mixing mixing(const Tensor& x) override {
    const auto [outputs, skip] = ScaledProjection::forward_all({res_.get()}, x, {.layer = false});
    return {sinkhorn(outputs[0], {.iterations = iterations_, .gradient = gradient_}), skip};
  }

  int64_t iterations_;
  SinkhornGradient gradient_;
  std::shared_ptr<ScaledProjection> res_;
};

class SinkhornMixer final : public SigmoidRouting {
 public:
  SinkhornMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : SigmoidRouting(width, n),
        iterations_(options.sinkhorn_iterations),
        gradient_(sinkhorn_gradient_from(options.sinkhorn_gradient)) {
    res_ = projection("res", doubly_stochastic_start(n), torch::full({n, 1}, 0.01));
  }

  InitialMap initial_map() const override { return InitialMap::near_identity; }

 private:
  Tensor mixing(const Tensor& projected) override {
    return sinkhorn(projected, {.iterations = iterations_, .gradient = gradient_});
  }

  int64_t iterations_;
  SinkhornGradient gradient_;
};

class PermutationMixer final : public SigmoidRouting {
 public:
  PermutationMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : SigmoidRouting(width, n) {
    res_ = projection("res", permutation_start(), Tensor());
    permutations_ = register_buffer("permutations", flat_permutations(n, options));
  }

  InitialMap initial_map() const override { return InitialMap::near_identity; }

 private:
  Tensor mixing(const Tensor& projected) override {
    return permutation_mixture(projected, permutations_);
  }

  Tensor permutations_;
};

}  // namespace

Tensor permutation_start() {
  auto logits = torch::full({6}, -8.0);
  logits[0] = 0.0;
  return logits;
}

Tensor flat_permutations(int64_t n, const JpmhcOptions& options) {
  const auto seed = static_cast<uint64_t>(options.permutation_seed);
  return jpmhc_permutations(n, seed).flatten(1).to(torch::kFloat32);
}

Tensor permutation_mixture(const Tensor& logits, const Tensor& permutations) {
  const ExecutionScope exact(Precision::fp32);  // rows and columns are to sum to 1
  const auto n = static_cast<int64_t>(std::lround(std::sqrt(permutations.size(1))));
  return linear_map(logits.softmax(-1), permutations.t()).unflatten(-1, std::vector<int64_t>{n, n});
}

Fields JpmhcOptions::fields() {
  return Fields()
      .choice("layout", layout, {"split", "expand"},
              "streams: the width cut into n, or n of the full width with the routes of mhc")
      .choice("mixer", mixer,
              {"cayley", "cayley_exact", "sinkhorn", "grassmann", "permutation", "identity",
               "sinkhorn_softmax", "reflections", "quaternions"},
              "what constrains H_res; reflections and quaternions: layout expand")
      .add("cayley_alpha", cayley_alpha, "α of the Cayley mixers")
      .add("cayley_iterations", cayley_iterations, "s of the iterative Cayley mixer",
           {.min = 0, .max = kMostIterations})
      .add("temperature", temperature, "τ of the routing softmaxes", {.min = 1e-6})
      .add("bias", bias, "bias of the fused projection (mixers with softmax routes)")
      .choice("generator_norm", generator_norm, {"affine", "rms"},
              "before the fused projection: LayerNorm with weights, or RMS without")
      .add("init_std", init_std, "standard deviation of the fused projection at the start",
           {.min = 0})
      .choice("read_norm", read_norm, {"layer", "none"}, "norm of the sublayer's input")
      .add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations",
           {.min = 1, .max = kMostIterations})
      .choice("sinkhorn_gradient", sinkhorn_gradient, {"implicit", "unrolled", "gauss_seidel"},
              "of the fixed point, of the iterations that were run, or of the fixed point by the "
              "paper's sixteen sweeps")
      .add("grassmann_step", grassmann_step, "step size of the Riemannian update", {.min = 0})
      .add("permutation_seed", permutation_seed, "seed of the sixth permutation", {.min = 0});
}

std::shared_ptr<JpmhcMixer> make_jpmhc_mixer(int64_t width, int64_t n,
                                             const JpmhcOptions& options) {
  if (options.mixer == "sinkhorn") return std::make_shared<SinkhornMixer>(width, n, options);
  if (options.mixer == "grassmann")
    return std::make_shared<GrassmannMixer>(width, n, options.grassmann_step);
  if (options.mixer == "permutation") return std::make_shared<PermutationMixer>(width, n, options);
  if (options.mixer == "identity") return std::make_shared<IdentityMixer>(width, n, options);
  if (options.mixer == "sinkhorn_softmax")
    return std::make_shared<SinkhornSoftmaxMixer>(width, n, options);
  return std::make_shared<CayleyMixer>(width, n, options);
}

}  // namespace geores
