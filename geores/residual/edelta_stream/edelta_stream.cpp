#include "geores/residual/edelta_stream/edelta_stream.h"

#include "geores/base/error.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/pooled/generators.h"
#include "geores/ops/routed/wide_routes.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

constexpr double kStreamNormEps = 1e-5;    // of the norm without weights
constexpr double kReflectionGuard = 1e-8;  // keeps a reflection with k̃ = 0 a reflection

// γ (Q ⊗ I) + (1 − γ)(I − 2kkᵀ) as one matrix: for the probe only.
Tensor whole_operator(const Tensor& q, const Tensor& k, const Tensor& gamma, int64_t width) {
  const auto g = gamma.unsqueeze(-1);
  return g * torch::kron(q, identity_like(q, width / q.size(-1))) + (1 - g) * householder(k);
}

// Its sigmoid is 1 with gradient 0, also after weight decay has reduced it.
constexpr double kGateThatStaysOpen = 1000;

}  // namespace

Fields EdeltaStreamOptions::fields() {
  return Fields()
      .choice("pool", pool, pool_names(),
              "input of the operator: all of the sequence (not causal), the past, or the token")
      .add("hidden", hidden, "hidden width of the generator perceptron", {.min = 1})
      .add("gate_bias", gate_bias, "initial gate logit; 0 starts at a singular operator")
      .add("gate_weight", gate_weight, "weight of the gate loss 4γ(1 − γ)", {.min = 0})
      .choice("generator_norm", generator_norm, {"affine", "rms"},
              "before generators and routes: LayerNorm with weights, or RMS without")
      .choice("read_norm", read_norm, {"layer", "none"}, "norm of the sublayer's input")
      .choice("reflection", reflection, {"streams", "whole"},
              "whether k mirrors the n streams or all D values of a token")
      .choice("start", start, {"small", "spread", "zero", "identity"},
              "generators: all small, of order 1, zero (which never moves u, v and beta), or zero "
              "with an open gate: a control that never mixes");
}

EdeltaStream::EdeltaStream(const ResidualConfig& config, const EdeltaStreamOptions& options)
    : RoutedConnection(
          {.layout = StreamLayout::split,
           .streams = config.streams,
           .state_width = config.width,
           .sublayer_width = config.width / std::max<int64_t>(config.streams, 1),
           .axis = options.reflection == "whole" ? OperatorAxis::width : OperatorAxis::streams,
           .causal = pool_from(options.pool) != Pool::sequence}),
      options_(options),
      pool_(pool_from(options.pool)) {
  require_streams(config, traits_.layout, "edelta_stream");
  require(!reflects_whole() || pool_ == Pool::token, "edelta_stream",
          "reflection = whole needs pool = token, got pool = {}", options.pool);
  const auto width = config.width, n = config.streams;
  const auto affine = options.generator_norm == "affine";
  if (options.read_norm == "layer")
    norm_ = register_module("norm", std::make_shared<LayerNorm>(traits_.sublayer_width));
  if (affine)
    generator_norm_ = register_module("generator_norm", std::make_shared<LayerNorm>(width, true));
  generator_ = register_module(
      "generator", std::make_shared<Perceptron>(width, options.hidden,
                                                2 * n + 2 + (reflects_whole() ? width : n)));
  if (affine)
    router_norm_ = register_module("router_norm", std::make_shared<LayerNorm>(width, true));
  router_ = register_module("router", make_linear(width, 2 * n * n, true));
  draw_start();
}

void EdeltaStream::draw_start() {
  torch::NoGradGuard no_grad;
  const auto n = traits_.streams;
  const auto parameters = generator_->named_parameters();
  const auto weight = parameters["output.weight"], bias = parameters["output.bias"];
  if (options_.start == "spread") {
    bias.slice(0, 0, 2 * n).normal_(0, 0.3);
    bias.slice(0, 2 * n + 1, -1).normal_(0, 1);
  }
  if (options_.start == "zero") {
    weight.zero_();
    router_->weight.zero_();
  }
  if (options_.start == "identity") weight.zero_();
  bias[-1] = options_.start == "identity" ? kGateThatStaysOpen : options_.gate_bias;
}

ProjectionAndSkip EdeltaStream::generators_of(const Tensor& x, Trace& trace) {
  if (!generator_norm_ && pool_ == Pool::token) {
    const auto p = generator_->weights();
    if (const auto hidden =
            wide_projected(x, kStreamNormEps, {{p.hidden, p.hidden_bias, /*scale=*/Tensor()}}))
      return {linear_map_to(torch::gelu(hidden->projected), p.output, p.output_bias,
                            full_type(x.scalar_type())),
              hidden->skip};
  }
  const auto summary = pooled(x, pool_, trace.memory());
  return {generator_->forward(generator_norm_ ? generator_norm_->forward(summary)
                                              : rms_normalize(summary, kStreamNormEps)),
          x};
}

EdeltaStream::Mixed EdeltaStream::mixed(const Tensor& state, Trace& trace) {
  const auto n = traits_.streams;
  const auto [raw, x] = generators_of(state, trace);
  const auto gate = [&](const Tensor& gamma, const Tensor& beta) {
    if (options_.gate_weight > 0) trace.add_loss(options_.gate_weight * gate_penalty(gamma));
    trace.probe("gamma", [&] { return gamma; });
    trace.probe("beta", [&] { return beta; });
  };
  Tensor g;
  if (reflects_whole()) {
    const auto parts = raw.split_with_sizes({n, n, 1, traits_.state_width, 1}, -1);
    const auto beta = torch::softplus(parts[2]), gamma = torch::sigmoid(parts[4]);
    const auto k = normalize(parts[3] + kReflectionGuard);
    const auto q = cayley_rotation(parts[0], parts[1], beta);
    g = gamma * join_streams(mix_streams(q, split_streams(x, n))) +
        (1 - gamma) * (x - 2 * k * (k * x).sum(-1, /*keepdim=*/true));
    gate(gamma, beta);
    trace.probe("operator", [&] { return whole_operator(q, k, gamma, traits_.state_width); });
  } else {
    const auto generators = split_generators(raw, n);
    const auto g_operator = hybrid_operator(generators);
    gate(generators.gamma, generators.beta);
    trace.probe("operator", [&] { return g_operator; });
    if (router_norm_) {
      const auto [normalized, g_flat] =
          mix_and_norm(g_operator, x, router_norm_->weight(), router_norm_->bias());
      return {.g = g_flat, .for_routes = normalized};
    }
    g = join_streams(mix_streams(g_operator, split_streams(x, n)));
  }
  return {.g = g, .for_routes = {}};
}

std::optional<EdeltaStream::Mixed> EdeltaStream::mixed_at_once(const Tensor& x, Trace& trace) {
  if (pool_ != Pool::sequence || !norm_ || !generator_norm_ || trace.probing() ||
      trace.memory() != nullptr)
    return std::nullopt;
  const auto made =
      fused_joint_mix(x, streams(), generator_norm_->weight(), generator_norm_->bias(),
                      generator_->weights(), options_.gate_weight);
  if (!made) return std::nullopt;
  if (made->penalty.defined()) trace.add_loss(made->penalty);
  return Mixed{.g = made->mixed, .for_routes = {}};
}

RoutedSpec EdeltaStream::spec() const {
  RoutedSpec spec{.streams = streams(),
                  .width = stream_width(),
                  .norm = {.layer = false, .epsilon = kStreamNormEps},
                  .projections = {{router_->weight, router_->bias, Tensor()}},
                  .routing = StreamRouting(),
                  .read_norm = {.kind = ReadNormSpec::Kind::none}};
  if (router_norm_)
    spec.norm = {.layer = true, .weight = router_norm_->weight(), .bias = router_norm_->bias()};
  if (norm_) spec.read_norm = {.weight = norm_->weight()};
  return spec;
}

Routed EdeltaStream::routed(const State& state, Trace& trace) {
  const auto x = state.total();
  auto made = mixed_at_once(x, trace);
  if (!made) made = mixed(x, trace);
  if (trace.probing()) probe_routes(*made, trace);
  return Routed::make(made->g, spec(), made->for_routes);
}

// The whole matrices; the result depends only on the column means of H_pre and the row sums of H_post.
void EdeltaStream::probe_routes(const Mixed& mixed, Trace& trace) const {
  const torch::NoGradGuard no_grad;
  const auto n = streams();
  const auto normal = mixed.for_routes.defined() ? mixed.for_routes
                                                 : normalized(in_full_type(mixed.g), spec().norm);
  const auto both = linear_map_to(normal, router_->weight, router_->bias, normal.scalar_type())
                        .unflatten(-1, std::vector<int64_t>{2, n, n});
  trace.probe("pre", [&] { return both.select(-3, 0).softmax(-1); });
  trace.probe("post", [&] { return both.select(-3, 1).softmax(-2); });
}

bool EdeltaStream::supports_bf16_state() const {
  return pool_ == Pool::token && !norm_ && !generator_norm_ && !reflects_whole() &&
         RoutedConnection::supports_bf16_state();
}

Connection edelta_stream_connection() {
  return describe_connection<EdeltaStream, EdeltaStreamOptions>(
      {.name = "edelta_stream",
       .summary = "EΔ operator with per-token routing, F at stream width",
       .paper = "EΔ-MHC-Geo, arXiv:2605.06729",
       .variants = {nlohmann::json::object(),
                    {{"pool", "causal"}, {"gate_weight", 0.1}},
                    {{"pool", "token"},
                     {"generator_norm", "rms"},
                     {"read_norm", "none"},
                     {"reflection", "whole"},
                     {"start", "spread"}}}});
}

}  // namespace geores
