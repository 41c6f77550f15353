#include "geores/residual/edelta_stream/edelta_stream.h"

#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/streams/streams.h"

namespace geores {

Fields EdeltaStreamOptions::fields() {
  return Fields()
      .choice("pool", pool, pool_names(),
              "what the operator sees: all of the sequence (not causal), the past, or the token")
      .add("hidden", hidden, "hidden width of the generator perceptron", {.min = 1})
      .add("gate_bias", gate_bias, "initial gate logit; 0 starts at a singular operator")
      .add("gate_weight", gate_weight, "weight of the gate loss 4γ(1 − γ)", {.min = 0});
}

EdeltaStream::EdeltaStream(const ResidualConfig& config, const EdeltaStreamOptions& options)
    : options_(options),
      pool_(pool_from(options.pool)),
      traits_{.layout = StreamLayout::split,
              .streams = config.streams,
              .state_width = config.width,
              .sublayer_width = config.width / std::max<int64_t>(config.streams, 1),
              .causal = pool_ != Pool::sequence} {
  require_streams(config, traits_.layout, "edelta_stream");
  const auto width = config.width, n = config.streams;
  norm_ = register_module("norm", std::make_shared<LayerNorm>(traits_.sublayer_width));
  generator_norm_ = register_module("generator_norm", std::make_shared<LayerNorm>(width, true));
  generator_ =
      register_module("generator", std::make_shared<Perceptron>(width, options.hidden, 3 * n + 2));
  router_norm_ = register_module("router_norm", std::make_shared<LayerNorm>(width, true));
  router_ = register_module("router", make_linear(width, 2 * n * n, true));

  torch::NoGradGuard no_grad;
  generator_->named_parameters()["output.bias"][3 * n + 1] = options.gate_bias;
}

Tensor EdeltaStream::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  const auto n = traits_.streams;
  const auto summary = generator_norm_->forward(pooled(x, pool_, trace.memory()));
  const auto generators = split_generators(generator_->forward(summary), n);
  const auto g_operator = hybrid_operator(generators);
  const auto [normalized, g_flat] =
      mix_and_norm(g_operator, x, router_norm_->weight(), router_norm_->bias());
  if (options_.gate_weight > 0)
    trace.add_loss(options_.gate_weight * gate_penalty(generators.gamma));

  const auto routes = linear_map_to(normalized, router_->weight, router_->bias, x.scalar_type());
  const auto both = routes.unflatten(-1, std::vector<int64_t>{2, n, n});
  const auto pre = both.select(-3, 0).softmax(-1);
  const auto post = both.select(-3, 1).softmax(-2);

  trace.probe("operator", [&] { return g_operator; });
  trace.probe("gamma", [&] { return generators.gamma; });
  trace.probe("beta", [&] { return generators.beta; });
  trace.probe("pre", [&] { return pre; });
  trace.probe("post", [&] { return post; });

  // The result depends only on the column means of H_pre and the row sums of H_post.
  const auto [read, g] = collect_and_norm(pre.mean(-2), split_streams(g_flat, n), norm_->weight());
  return join_streams(g + spread_to_streams(post.sum(-1), f(read)));
}

Connection edelta_stream_connection() {
  return describe_connection<EdeltaStream, EdeltaStreamOptions>(
      {.name = "edelta_stream",
       .summary = "EΔ operator with per-token routing, F at stream width",
       .paper = "EΔ-MHC-Geo, arXiv:2605.06729",
       .variants = {nlohmann::json::object(), {{"pool", "causal"}, {"gate_weight", 0.1}}}});
}

}  // namespace geores
