#include "geores/residual/jpmhc/mixer.h"

#include <optional>

#include "geores/base/error.h"
#include "geores/modules/layers.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/permutations.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/projected.h"
#include "geores/ops/run/precision.h"
#include "geores/residual/iterations.h"
#include "geores/residual/jpmhc/grassmann.h"

namespace geores {
namespace {

constexpr double kGeneratorEps = 1e-5;  // of the norm without weights

Tensor doubly_stochastic_start(int64_t n) { return 8 * torch::eye(n) - 8; }

SinkhornSpec sinkhorn_of(const JpmhcOptions& options) {
  return {.iterations = options.sinkhorn_iterations,
          .gradient = sinkhorn_gradient_from(options.sinkhorn_gradient)};
}

// Softmax routes: norm → one Linear(D, outputs) makes the raw values of both softmaxes and, for the
// Cayley mixers, of H_res: [H̃_pre | H̃_post | H̃_res]. The norm is an affine LayerNorm, or RMS without
// weights (generator_norm). JPmHC's paper lacks the other two, which are controls: the same routes with
// the identity, or with Sinkhorn's matrix from a separate projection.
class SoftmaxMixer final : public JpmhcMixer {
 public:
  SoftmaxMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : width_(width), n_(n), options_(options) {
    if (options.generator_norm == "affine")
      norm_ = register_module("norm", std::make_shared<LayerNorm>(width, true));
    fused_ = register_module(
        "fused", make_linear(width, (is_cayley() ? 3 : 2) * n * n, options.bias, options.init_std));
    if (options.mixer == "sinkhorn_softmax")
      res_ =
          register_module("res", std::make_shared<ScaledProjection>(
                                     width, doubly_stochastic_start(n), torch::full({n, 1}, 0.01)));
  }

  InitialMap initial_map() const override {
    if (is_cayley()) return InitialMap::other;
    return res_ ? InitialMap::near_identity : InitialMap::identity;
  }

  RoutedSpec spec() const override {
    return {.streams = n_,
            .width = width_ / n_,
            .norm = norm_
                        ? NormSpec{.layer = true, .weight = norm_->weight(), .bias = norm_->bias()}
                        : NormSpec{.layer = false, .epsilon = kGeneratorEps},
            .projections = {{.weight = fused_->weight, .bias = fused_->bias, .scale = {}}},
            .routing = routing()};
  }

 private:
  bool is_cayley() const { return options_.mixer.starts_with("cayley"); }

  Routing routing() const {
    if (is_cayley())
      return CayleyRouting{.temperature = options_.temperature,
                           .alpha = options_.cayley_alpha,
                           .iterations = options_.cayley_iterations,
                           .exact = options_.mixer == "cayley_exact"};
    return SoftmaxRouting{.mixing = [this](const Tensor& x) { return mixed(x); },
                          .temperature = options_.temperature};
  }

  SoftmaxRouting::Mixed mixed(const Tensor& x) const {
    if (!res_) {
      const auto identity = torch::eye(n_, x.options().dtype(full_type(x.scalar_type())));
      return {identity.expand({x.size(0), x.size(1), -1, -1}), x};
    }
    const auto [raw, skip] = projected(x, {.layer = false}, {res_->weights()});
    return {sinkhorn(raw.unflatten(-1, std::vector<int64_t>{n_, n_}), sinkhorn_of(options_)), skip};
  }

  int64_t width_, n_;
  JpmhcOptions options_;
  std::shared_ptr<LayerNorm> norm_;  // null: RMS
  torch::nn::Linear fused_{nullptr};
  std::shared_ptr<ScaledProjection> res_;  // of sinkhorn_softmax
};

// Sigmoid routes:
//   x' = RMSNorm(x);  read = σ(α x'W_pre + b), write = 2σ(α x'W_post + b) ∈ R^n;  H_res from x'
// W = 0 at the start, α = 0.01 per stream, b = 0. The paper prints only the sizes of these modules
// (49,188, 32,796 and 28,694 at n = 4, nd = 2048); one scale per stream for read, write and the
// rows of H̃_res, none for the permutation logits, is what gives all three.
class SigmoidMixer final : public JpmhcMixer {
 public:
  SigmoidMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : width_(width), n_(n), options_(options) {
    const auto projection = [&](const char* name, const Tensor& bias, const Tensor& scale) {
      return register_module(name, std::make_shared<ScaledProjection>(width, bias, scale));
    };
    pre_ = projection("pre", torch::zeros({n}), torch::full({n}, 0.01));
    post_ = projection("post", torch::zeros({n}), torch::full({n}, 0.01));
    if (options.mixer == "permutation") {
      res_ = projection("res", permutation_start(), Tensor());
      permutations_ = register_buffer("permutations", flat_permutations(n, options));
    } else if (options.mixer == "grassmann") {
      require(n >= 2, "jpmhc", "mixer grassmann needs at least 2 streams, got {}", n);
      res_ = projection("res", random_subspace(n), torch::full({n, 1}, 0.01));
      subspace_.emplace(*this, res_->bias(), options.grassmann_step);
    } else {
      res_ = projection("res", doubly_stochastic_start(n), torch::full({n, 1}, 0.01));
    }
  }

  InitialMap initial_map() const override {
    return subspace_ ? InitialMap::other : InitialMap::near_identity;
  }
  std::vector<Tensor> manifold_parameters() const override {
    return subspace_ ? std::vector<Tensor>{res_->bias()} : std::vector<Tensor>{};
  }
  void manifold_step() override {
    if (subspace_) subspace_->step(res_->bias());
  }

  RoutedSpec spec() const override {
    return {.streams = n_,
            .width = width_ / n_,
            .projections = {pre_->weights(), post_->weights(), res_->weights()},
            .routing = MixerRouting{[this](const std::vector<Tensor>& z) { return mixed(z[0]); }}};
  }

 private:
  Tensor mixed(const Tensor& z) const {
    if (permutations_.defined()) return permutation_mixture(z, permutations_);
    return subspace_ ? projector_onto(z) : sinkhorn(z, sinkhorn_of(options_));
  }

  int64_t width_, n_;
  JpmhcOptions options_;
  std::shared_ptr<ScaledProjection> pre_, post_, res_;
  Tensor permutations_;
  std::optional<GrassmannSteps> subspace_;
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
  const auto& mixer = options.mixer;
  if (mixer == "sinkhorn" || mixer == "grassmann" || mixer == "permutation")
    return std::make_shared<SigmoidMixer>(width, n, options);
  return std::make_shared<SoftmaxMixer>(width, n, options);
}

}  // namespace geores
