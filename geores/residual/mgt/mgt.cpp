#include "geores/residual/mgt/mgt.h"

#include "geores/base/error.h"

namespace geores {

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

Tensor Mgt::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  auto v = f(norm_->forward(x));
  if (options_.rectify) v = v * torch::sigmoid(gate_norm_->forward(gate_(x)));
  if (!options_.delta) {
    trace.probe("operator",
                [&] { return torch::eye(x.size(-1), x.options()).unsqueeze(0).unsqueeze(0); });
    return x + v;
  }
  const auto beta = options_.beta_scale * torch::tanh(beta_(x)) + options_.beta_offset;
  trace.probe("beta", [&] { return beta; });
  trace.probe("operator", [&] { return torch::diag_embed(1 - alpha_ * beta); });
  return x + beta * (v - alpha_ * x);
}

Connection mgt_connection() {
  return describe_connection<Mgt, MgtOptions>(
      {.name = "mgt",
       .summary = "gated tangent projection and delta update on the whole width",
       .paper = "MGT, \"Geometric and Dynamic Scaling in Deep Transformers\"",
       .variants = {nlohmann::json::object(), {{"rectify", false}}, {{"delta", false}}}});
}

}  // namespace geores
