#include "geores/residual/edelta_stream/edelta_stream.h"

#include "geores/base/error.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/pooled/generators.h"
#include "geores/ops/routed/routed.h"
#include "geores/ops/routed/routes.h"
#include "geores/ops/routed/softmax_routes.h"
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
    : options_(options),
      pool_(pool_from(options.pool)),
      traits_{.layout = StreamLayout::split,
              .streams = config.streams,
              .state_width = config.width,
              .sublayer_width = config.width / std::max<int64_t>(config.streams, 1),
              .axis = reflects_whole() ? OperatorAxis::width : OperatorAxis::streams,
              .causal = pool_ != Pool::sequence} {
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

std::optional<Tensor> EdeltaStream::fused_forward(const Tensor& x, const Sublayer& f,
                                                  Trace& trace) {
  if (pool_ != Pool::sequence || !norm_ || !generator_norm_ || !x.is_cuda() || trace.probing() ||
      trace.memory() != nullptr)
    return std::nullopt;
  const auto mixed =
      fused_joint_mix(x, traits_.streams, generator_norm_->weight(), generator_norm_->bias(),
                      generator_->weights(), options_.gate_weight);
  if (!mixed) return std::nullopt;
  if (mixed->penalty.defined()) trace.add_loss(mixed->penalty);
  const auto routed = Routed::make(
      mixed->mixed,
      {.streams = traits_.streams,
       .norm = {.layer = true, .weight = router_norm_->weight(), .bias = router_norm_->bias()},
       .projections = {{router_->weight, router_->bias, Tensor()}},
       .routing = StreamRouting(),
       .read_weight = norm_->weight()});
  if (routed) return join_streams(routed->write(f(routed->normalized())));
  return join_streams(
      composed(this->routed({mixed->mixed, router_norm_->forward(mixed->mixed)}, trace), f));
}

EdeltaStream::StreamRoutes EdeltaStream::routed(Mixed mixed, Trace& trace) const {
  const auto n = traits_.streams;
  auto& [g, for_routes] = mixed;
  if (!for_routes.defined() && !trace.probing()) {
    const auto norm = router_norm_ ? NormSpec{.layer = true,
                                              .weight = router_norm_->weight(),
                                              .bias = router_norm_->bias()}
                                   : NormSpec{.layer = false, .epsilon = kStreamNormEps};
    if (const auto made = wide_softmax_routes(g, {norm, router_->weight, router_->bias}, n, {}))
      return {.streams = split_streams(made->skip, n),
              .read = made->routes.read,
              .write = made->routes.write};
  }
  if (!for_routes.defined())
    for_routes =
        router_norm_ ? router_norm_->forward(g) : rms_normalize(in_full_type(g), kStreamNormEps);
  const auto routes =
      linear_map_to(for_routes, router_->weight, router_->bias, full_type(g.scalar_type()));
  if (!trace.probing()) {
    const auto [read, write] = softmax_read_write(routes, n);
    return {.streams = split_streams(g, n), .read = read, .write = write};
  }
  const auto both = routes.unflatten(-1, std::vector<int64_t>{2, n, n});
  const auto pre = both.select(-3, 0).softmax(-1);
  const auto post = both.select(-3, 1).softmax(-2);
  trace.probe("pre", [&p = pre] { return p; });
  trace.probe("post", [&p = post] { return p; });
  // The result depends only on the column means of H_pre and the row sums of H_post.
  return {.streams = split_streams(g, n), .read = pre.mean(-2), .write = post.sum(-1)};
}

std::optional<WideStreams> EdeltaStream::wide(const StreamRoutes& r) const {
  if (norm_) return std::nullopt;
  const auto pass =
      identity_like(r.read, traits_.streams).expand({r.read.size(0), r.read.size(1), -1, -1});
  return WideStreams::make({.res = pass, .read = r.read, .write = r.write}, r.streams,
                           {.kind = ReadNormSpec::Kind::none});
}

Tensor EdeltaStream::composed(const StreamRoutes& r, const Sublayer& f) const {
  if (!norm_) return r.streams + spread_to_streams(r.write, f(collect_streams(r.read, r.streams)));
  const auto [read, g] = collect_and_norm(r.read, r.streams, norm_->weight());
  return g + spread_to_streams(r.write, f(read));
}

Tensor EdeltaStream::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  if (const auto fused = fused_forward(x, f, trace)) return *fused;
  const auto r = routed(mixed(x, trace), trace);
  if (const auto around = wide(r)) return join_streams(around->write(f(around->read())));
  return join_streams(composed(r, f));
}

PostNormed EdeltaStream::forward_normalized(const Tensor& x, const Sublayer& f,
                                            const PostNorm& norm, Trace& trace) {
  const auto r = routed(mixed(x, trace), trace);
  const auto around = wide(r);
  if (!around) return post_norm_of_tokens(join_streams(composed(r, f)), norm);
  return joined(around->write_normalized(f(around->read()), norm));
}

bool EdeltaStream::supports_bf16_state() const {
  return pool_ == Pool::token && !norm_ && !generator_norm_ && !reflects_whole() &&
         takes_half_streams(traits_.streams, traits_.sublayer_width);
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
