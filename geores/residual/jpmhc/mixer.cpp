#include "geores/residual/jpmhc/mixer.h"

#include "geores/base/error.h"
#include "geores/modules/layers.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/run/precision.h"
#include "geores/residual/jpmhc/grassmann.h"
#include "geores/residual/jpmhc/sigmoid_routing.h"

namespace geores {
namespace {

// LN → one Linear(D, 3n²) → H̃_pre, H̃_post, H̃_res.
class CayleyMixer final : public JpmhcMixer {
 public:
  CayleyMixer(int64_t width, int64_t n, const JpmhcOptions& options) : n_(n), options_(options) {
    norm_ = register_module("norm", std::make_shared<LayerNorm>(width, true));
    fused_ = register_module("fused", make_linear(width, 3 * n * n, options.bias));
  }

  JpmhcRoutes route(const Tensor& x) override {
    const auto [raw, skip] = normalized_linear(x, norm(), fused_->weight, fused_->bias);
    return {.routes = cayley_routes(raw, n_, routing()), .skip = skip};
  }

  std::optional<RoutedSpec> spec() const override {
    return RoutedSpec{
        .streams = n_,
        .norm = norm(),
        .projections = {{.weight = fused_->weight, .bias = fused_->bias, .scale = {}}},
        .routing = routing()};
  }

 private:
  NormSpec norm() const {
    return {.layer = true, .weight = norm_->weight(), .bias = norm_->bias()};
  }
  CayleyRouting routing() const {
    return {.temperature = options_.temperature,
            .alpha = options_.cayley_alpha,
            .iterations = options_.cayley_iterations,
            .exact = options_.mixer == "cayley_exact"};
  }

  int64_t n_;
  JpmhcOptions options_;
  std::shared_ptr<LayerNorm> norm_;
  torch::nn::Linear fused_{nullptr};
};

class SinkhornMixer final : public SigmoidRouting {
 public:
  SinkhornMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : SigmoidRouting(width, n),
        iterations_(options.sinkhorn_iterations),
        gradient_(sinkhorn_gradient_from(options.sinkhorn_gradient)) {
    res_ = projection("res", 8 * torch::eye(n) - 8, torch::full({n, 1}, 0.01));
  }

  InitialMap initial_map() const override { return InitialMap::near_identity; }

 private:
  Tensor mixing(const Tensor& projected) override {
    return sinkhorn(projected, iterations_, gradient_);
  }

  int64_t iterations_;
  SinkhornGradient gradient_;
};

class PermutationMixer final : public SigmoidRouting {
 public:
  PermutationMixer(int64_t width, int64_t n, const JpmhcOptions& options)
      : SigmoidRouting(width, n), n_(n) {
    auto bias = torch::full({6}, -8.0);
    bias[0] = 0.0;
    res_ = projection("res", bias, Tensor());
    const auto seed = static_cast<uint64_t>(options.permutation_seed);
    permutations_ =
        register_buffer("permutations", jpmhc_permutations(n, seed).flatten(1).to(torch::kFloat32));
  }

  InitialMap initial_map() const override { return InitialMap::near_identity; }

 private:
  Tensor mixing(const Tensor& projected) override {
    const ExecutionScope exact(Precision::fp32);  // rows and columns are to sum to 1
    const auto weights = projected.softmax(-1);
    return linear_map(weights, permutations_.t()).unflatten(-1, std::vector<int64_t>{n_, n_});
  }

  int64_t n_;
  Tensor permutations_;
};

}  // namespace

Fields JpmhcOptions::fields() {
  return Fields()
      .choice("mixer", mixer, {"cayley", "cayley_exact", "sinkhorn", "grassmann", "permutation"},
              "what constrains H_res")
      .add("cayley_alpha", cayley_alpha, "α of the Cayley mixers")
      .add("cayley_iterations", cayley_iterations, "s of the iterative Cayley mixer", {.min = 0})
      .add("temperature", temperature, "τ of the routing softmaxes", {.min = 1e-6})
      .add("bias", bias, "bias of the fused projection (cayley, cayley_exact)")
      .add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations", {.min = 1})
      .choice("sinkhorn_gradient", sinkhorn_gradient, {"implicit", "unrolled"},
              "of the fixed point, or of the iterations that were run")
      .add("grassmann_step", grassmann_step, "step size of the Riemannian update", {.min = 0})
      .add("permutation_seed", permutation_seed, "seed of the sixth permutation", {.min = 0});
}

std::shared_ptr<JpmhcMixer> make_jpmhc_mixer(int64_t width, int64_t n,
                                             const JpmhcOptions& options) {
  if (options.mixer == "sinkhorn") return std::make_shared<SinkhornMixer>(width, n, options);
  if (options.mixer == "grassmann")
    return std::make_shared<GrassmannMixer>(width, n, options.grassmann_step);
  if (options.mixer == "permutation") return std::make_shared<PermutationMixer>(width, n, options);
  return std::make_shared<CayleyMixer>(width, n, options);
}

}  // namespace geores
