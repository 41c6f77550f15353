#include "geores/residual/edelta/edelta.h"

#include "geores/base/error.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/pooled/generators.h"
#include "geores/ops/streams/streams.h"

namespace geores {
Fields EdeltaOptions::fields() {
  return Fields()
      .choice("operator", operator_name, {"hybrid", "cayley", "householder", "identity"},
              "gated blend, rotation only (γ = 1), reflection only (γ = 0), or none (G = I)")
      .choice("pool", pool, pool_names(),
              "input of the operator: all of the sequence (not causal), the past, or the token")
      .choice("init", init, {"identity", "reference"},
              "H_pre and H_post: identity as the paper states, or N(0, 0.02) as its code ran")
      .add("init_std", init_std, "standard deviation of H_pre and H_post with init = reference",
           {.min = 0})
      .choice("gate", gate, {"plain", "entropy"},
              "the paper's gate, or the entropy-scaled one of its published numbers")
      .choice("gate_value", gate_value, {"soft", "hard"},
              "blend with γ, or with γ rounded to 0 or 1 and gradients straight through")
      .add("gate_bias", gate_bias, "initial gate logit; 0 starts at a singular operator")
      .add("gate_weight", gate_weight, "weight of the gate loss 4γ(1 − γ)", {.min = 0})
      .add("hidden_ratio", hidden_ratio, "width over hidden width of the generator perceptrons",
           {.min = 1})
      .add("anchor", anchor,
           "length of the initial bias of the reflection's direction; 0 as published", {.min = 0});
}

Edelta::Edelta(const ResidualConfig& config, const EdeltaOptions& options)
    : options_(options),
      pool_(pool_from(options.pool)),
      traits_{.layout = StreamLayout::split,
              .streams = config.streams,
              .state_width = config.width,
              .sublayer_width = config.width,
              .causal = pool_ != Pool::sequence || is("identity"),
              .orthogonal = !gated() || hard()} {
  require_streams(config, traits_.layout, "edelta");
  const auto width = config.width, n = config.streams, hidden = width / options.hidden_ratio;
  require(hidden >= 1, "edelta", "hidden_ratio {} gives no hidden unit at width {}",
          options.hidden_ratio, width);

  norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
  if (rotates()) {
    u_ = register_module("u", std::make_shared<Perceptron>(width, hidden, n));
    v_ = register_module("v", std::make_shared<Perceptron>(width, hidden, n));
    beta_ = register_module("beta", std::make_shared<Perceptron>(width, hidden, 1));
  }
  if (reflects()) {
    k_ = register_module("k", std::make_shared<Perceptron>(width, hidden, n));
    if (options.anchor > 0) {
      torch::NoGradGuard no_grad;
      const auto drawn = torch::randn({n});
      k_->weights().output_bias.copy_(options.anchor * drawn / drawn.norm());
    }
  }
  if (gated()) {
    gate_ = register_module("gate", make_linear(width, 1, true, 0.0));
    torch::NoGradGuard no_grad;
    gate_->bias.fill_(options.gate_bias);
  }
  pre_ = register_module("pre", make_linear(width, width, false, options.init_std));
  post_ = register_module("post", make_linear(width, width, false, options.init_std));
  if (options.init == "identity") {
    torch::NoGradGuard no_grad;
    for (const auto& map : {pre_, post_}) map->weight.copy_(torch::eye(width));
  }
  // Rotations start close to I because u and v start small; a reflection is never close to I.
  if (!reflects()) traits_.initial_map = InitialMap::near_identity;
  if (is("identity")) traits_.initial_map = InitialMap::identity;
}

std::vector<Perceptron*> Edelta::perceptrons() const {
  std::vector<Perceptron*> nets;
  for (const auto& net : {u_, v_, beta_, k_})
    if (net) nets.push_back(net.get());
  return nets;
}

HybridGenerators Edelta::generators(const Tensor& summary) {
  HybridGenerators p;
  const auto outputs = Perceptron::forward_all(perceptrons(), summary);
  if (rotates()) {
    p.u = outputs[0];
    p.v = outputs[1];
    p.beta = torch::softplus(outputs[2]);
  }
  if (reflects()) p.k = normalize(outputs.back());
  return p;
}

Tensor Edelta::gate(const Tensor& summary, const Tensor& streams, Trace& trace) {
  auto logit = linear_map(summary, gate_->weight, gate_->bias);
  if (options_.gate == "entropy")
    logit = logit * (1 + pooled(stream_entropy(streams), pool_, trace.memory()));
  return torch::sigmoid(logit);
}

Tensor Edelta::operator_from(const HybridGenerators& p) const {
  if (!reflects()) return cayley_rotation(p.u, p.v, p.beta);
  if (!rotates()) return householder(p.k);
  return hybrid_operator(p);
}

void Edelta::probe(const HybridGenerators& p, Trace& trace) const {
  if (gated()) trace.probe("gamma", [&] { return p.gamma; });
  if (!rotates()) return;
  trace.probe("beta", [&] { return p.beta; });
  trace.probe("angle", [&] {
    const auto area = (p.u.square().sum(-1, true) * p.v.square().sum(-1, true) -
                       (p.u * p.v).sum(-1, true).square())
                          .clamp_min(0)
                          .sqrt();
    return 2 * torch::atan(0.5 * p.beta * area);
  });
}

State Edelta::advance(const State& state, const Sublayer& f, Trace& trace) {
  if (is("identity")) {
    const auto [normalized, x] = norm_->forward_and_skip(state);
    trace.probe("operator", [&] {
      return identity_like(x, traits_.streams).expand({x.size(0), 1, -1, -1});
    });
    return with_branch(x, f.between(pre(), normalized, post()));
  }
  const auto [g_operator, x] = operator_and_skip(state, trace);
  trace.probe("operator", [&op = g_operator] { return op; });
  const auto [normalized, g] = mix_and_norm(g_operator, x, norm_->weight());
  return with_branch(g, f.between(pre(), normalized, post()));
}

std::pair<Tensor, Tensor> Edelta::operator_and_skip(const State& state, Trace& trace) {
  if (gated() && !hard() && !trace.probing() && trace.memory() == nullptr) {
    const HybridGate gate{.weight = gate_->weight,
                          .bias = gate_->bias,
                          .entropy = options_.gate == "entropy",
                          .penalty_weight = options_.gate_weight};
    if (const auto hybrid = fused_hybrid(state, pool_, traits_.streams,
                                         Perceptron::weights_of(perceptrons()), gate)) {
      if (hybrid->penalty.defined()) trace.add_loss(hybrid->penalty);
      return {hybrid->g, hybrid->skip};
    }
  }
  const auto x = state.total();
  const auto summary = pooled(x, pool_, trace.memory());  // (B, T', D)
  auto p = generators(summary);
  if (gated()) {
    p.gamma = gate(summary, split_streams(x, traits_.streams), trace);
    if (options_.gate_weight > 0) trace.add_loss(options_.gate_weight * gate_penalty(p.gamma));
    // The value is exactly 0 or 1, the gradient that of γ.
    if (hard()) p.gamma = p.gamma.detach().round() + (p.gamma - p.gamma.detach());
  }
  probe(p, trace);
  return {operator_from(p), x};
}

Connection edelta_connection() {
  return describe_connection<Edelta, EdeltaOptions>(
      {.name = "edelta",
       .summary = "gated Cayley rotation / Householder reflection of streams, then F",
       .paper = "EΔ-MHC-Geo, arXiv:2605.06729",
       .variants = {nlohmann::json::object(),
                    {{"gate", "entropy"}, {"init", "reference"}},
                    {{"pool", "causal"}, {"gate", "entropy"}},
                    {{"pool", "token"}, {"anchor", 1.0}},
                    {{"operator", "cayley"}, {"pool", "causal"}},
                    {{"operator", "householder"}},
                    {{"operator", "identity"}, {"init", "reference"}}},
       .has_token_step = [](const nlohmann::json& options, int64_t) {
         return option_or<std::string>(options, "pool", "sequence") != "sequence" &&
                option_or<std::string>(options, "operator", "hybrid") == "hybrid";
       }});
}

}  // namespace geores
