#include "geores/residual/mgt/mgt.h"

#include "geores/base/error.h"
#include "geores/ops/inference/into.h"

namespace geores {
namespace {

// Keeps its type when the model moves to another type or device.
GatedUpdateSpec detached(GatedUpdateSpec update) {
  for (auto* weight :
       {&update.gate_weight, &update.norm_weight, &update.beta_weight, &update.beta_bias})
    if (weight->defined()) *weight = weight->detach();
  return update;
}

class MgtStep final : public TokenStep {
 public:
  MgtStep(const Tensor& norm, const GatedUpdateSpec& update, int64_t batch)
      : norm_(norm.detach()),
        update_(detached(update)),
        alpha_(update.alpha.defined() ? update.alpha.item<double>() : 0),
        normalized_(torch::zeros({batch, norm.numel()}, norm_.options())),
        raw_(torch::zeros_like(normalized_)),
        branch_(torch::zeros_like(normalized_)) {}

  const Tensor& read(const Tensor& x) override {
    into::layer_norm(x, norm_, normalized_);
    return normalized_;
  }

  void write(const Tensor& y, Tensor& x) override {
    into::copy(y, branch_);
    if (update_.gate_weight.defined()) {
      into::linear(x, update_.gate_weight, {}, raw_);
      into::layer_norm(raw_, update_.norm_weight, normalized_);
      into::gate(normalized_, branch_);
    }
    if (!update_.beta_weight.defined()) return into::add(x, branch_);
    into::linear(x, update_.beta_weight, update_.beta_bias, raw_);
    into::delta_update(raw_, branch_, alpha_, update_.scale, update_.offset, x);
  }

 private:
  Tensor norm_;
  GatedUpdateSpec update_;
  double alpha_;
  Tensor normalized_, raw_, branch_;
};

}  // namespace

Fields MgtOptions::fields() {
  return Fields()
      .add("rectify", rectify, "gate the update by σ(LN(X W))")
      .add("delta", delta, "scale the update by β and forget αX")
      .add("beta_scale", beta_scale, "λ in β = λ tanh(X W + b) + ε")
      .add("beta_offset", beta_offset, "ε in β = λ tanh(X W + b) + ε")
      .add("beta_bias", beta_bias, "initial b in β = λ tanh(X W + b) + ε");
}

Mgt::Mgt(const ResidualConfig& config, const MgtOptions& options)
    : options_(options),
      traits_{.state_width = config.width,
              .sublayer_width = config.width,
              .axis = OperatorAxis::width,
              .orthogonal = !options.delta,
              .initial_map = InitialMap::identity} {
  require_streams(config, traits_.layout, "mgt");
  require(options.rectify || options.delta, "mgt",
          "rectify and delta are both off: that is the additive connection");
  const auto width = config.width;
  norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
  if (options.rectify) {
    gate_ = register_module("gate", make_linear(width, width, false));
    gate_norm_ = register_module("gate_norm", std::make_shared<LayerNorm>(width));
  }
  if (options.delta) {
    beta_ = register_module("beta", make_linear(width, width, true));
    alpha_ = register_parameter("alpha", torch::zeros({1}));
    torch::NoGradGuard no_grad;
    beta_->bias.fill_(options.beta_bias);
  }
}

GatedUpdateSpec Mgt::update() const {
  GatedUpdateSpec update{.scale = options_.beta_scale, .offset = options_.beta_offset};
  if (options_.rectify) {
    update.gate_weight = gate_->weight;
    update.norm_weight = gate_norm_->weight();
  }
  if (options_.delta) {
    update.beta_weight = beta_->weight;
    update.beta_bias = beta_->bias;
    update.alpha = alpha_;
  }
  return update;
}

std::unique_ptr<TokenStep> Mgt::token_step(int64_t batch) const {
  torch::NoGradGuard no_grad;
  return std::make_unique<MgtStep>(norm_->weight(), update(), batch);
}

Tensor Mgt::forward(const Tensor& input, const Sublayer& f, Trace& trace) {
  const auto [normalized, x] = norm_->forward_and_skip(input);
  const auto update = this->update();
  if (options_.delta) {
    trace.probe("beta", [&] { return update.beta(x); });
    trace.probe("operator", [&] { return torch::diag_embed(1 - alpha_ * update.beta(x)); });
  } else {
    trace.probe("operator",
                [&] { return torch::eye(x.size(-1), x.options()).unsqueeze(0).unsqueeze(0); });
  }
  return gated_update(x, f(normalized), update);
}

Connection mgt_connection() {
  return describe_connection<Mgt, MgtOptions>(
      {.name = "mgt",
       .summary = "gated tangent projection and delta update on the whole width",
       .paper = "MGT, \"Geometric and Dynamic Scaling in Deep Transformers\"",
       .variants = {nlohmann::json::object(), {{"rectify", false}}, {{"delta", false}}},
       .has_token_step = always});
}

}  // namespace geores
