#include "geores/residual/isometry/isometry.h"

#include "geores/base/error.h"
#include "geores/ops/streams/streams.h"

namespace geores {

Fields IsometryOptions::fields() {
  return Fields()
      .choice("operator", operator_name, isometry_names(),
              "pairs of reflections, complex reflections, or Cayley rotations of all streams")
      .add("factors", factors, "of these in a row", {.min = 1, .max = 64})
      .choice("pool", pool, pool_names(),
              "input of the operator: all of the sequence (not causal), the past, or the token")
      .choice("generator", generator, generator_names(),
              "map from the input to the operator: a perceptron, a linear map, or their sum")
      .add("hidden_ratio", hidden_ratio, "width over hidden width of the generator perceptron",
           {.min = 1})
      .add("anchor", anchor, "length of the initial bias of each direction", {.min = 0});
}

IsometryResidual::IsometryResidual(const ResidualConfig& config, const IsometryOptions& options)
    : factor_(isometry_from(options.operator_name)),
      pool_(pool_from(options.pool)),
      traits_{.layout = StreamLayout::split,
              .streams = config.streams,
              .state_width = config.width,
              .sublayer_width = config.width,
              .causal = pool_ != Pool::sequence,
              .orthogonal = true} {
  require_streams(config, traits_.layout, "isometry");
  const auto width = config.width, n = config.streams, hidden = width / options.hidden_ratio;
  require(n >= 2, "isometry", "needs at least 2 streams, got {}", n);
  require(n % 2 == 0 || factor_ != IsometryFactor::unitary, "isometry",
          "unitary needs an even number of streams, got {}", n);
  require(hidden >= 1, "isometry", "hidden_ratio {} gives no hidden unit at width {}",
          options.hidden_ratio, width);
  norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
  generators_ = register_module(
      "generators", std::make_shared<Generators>(options.generator, width, hidden,
                                                 anchors(options.anchor, options.factors)));
  traits_.initial_map = factor_ == IsometryFactor::reflections && options.anchor == 0
                            ? InitialMap::other
                            : InitialMap::near_identity;
}

Tensor IsometryResidual::anchors(double length, int64_t factors) const {
  const auto n = traits_.streams;
  std::vector<Tensor> all;
  for (int64_t i = 0; i < factors; ++i) {
    if (factor_ == IsometryFactor::cayley) {
      all.push_back(torch::zeros({n * (n - 1) / 2}));
      continue;
    }
    const auto drawn = torch::randn({n});
    const auto k = length * drawn / drawn.norm();
    all.insert(all.end(), {k, factor_ == IsometryFactor::unitary ? torch::zeros({1}) : k});
  }
  return torch::cat(all);
}

State IsometryResidual::advance(const State& state, const Sublayer& f, Trace& trace) {
  const auto x = state.total();
  const auto raw = generators_->forward(pooled(x, pool_, trace.memory()));  // (B, T', generators)
  const auto g_operator = isometry(raw, factor_, traits_.streams);
  trace.probe("operator", [&] { return g_operator; });
  const auto [normalized, g] = mix_and_norm(g_operator, x, norm_->weight());
  return with_branch(g, f(normalized));
}

Connection isometry_connection() {
  return describe_connection<IsometryResidual, IsometryOptions>(
      {.name = "isometry",
       .summary =
           "products of reflections, complex reflections or Cayley rotations: orthogonal always",
       .paper = "geores, docs/notebook/own.md",
       .variants = {{{"operator", "reflections"}},
                    {{"operator", "reflections"}, {"factors", 2}, {"pool", "token"}, {"anchor", 0}},
                    {{"operator", "unitary"}},
                    {{"operator", "unitary"}, {"factors", 2}, {"pool", "sequence"}},
                    {{"operator", "cayley"}},
                    {{"operator", "reflections"}, {"generator", "linear"}},
                    {{"operator", "unitary"}, {"generator", "both"}}}});
}

}  // namespace geores
