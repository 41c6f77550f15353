#include "geores/residual/hc/hc.h"

#include "geores/base/error.h"
#include "geores/ops/routed/route_maps.h"
#include "geores/ops/routed/wide.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"
#include "geores/residual/routed_step.h"

namespace geores {
namespace {

std::shared_ptr<Residual> make_hc(const ResidualConfig& config, const HcOptions& options) {
  if (options.form == "sigmoid") {
    require(options.dynamic, "hc", "only form original has static routes (dynamic = false)");
    return std::make_shared<SigmoidHc>(config, options);
  }
  return std::make_shared<Hc>(config, options);
}

// RMSNorm(x) times each of the weights, side by side, and x.
ProjectionAndSkip stream_projections(const Tensor& x, const std::vector<Tensor>& weights,
                                     double epsilon) {
  if (runs_cuda_kernel(x) || runs_half_state_kernel(x)) {
    const auto no_bias = torch::zeros({x.size(-2)}, weights[0].options());  // of n at most
    std::vector<ProjectionWeights> projections;
    for (const auto& weight : weights)
      projections.push_back({weight, no_bias.slice(0, 0, weight.size(0)), Tensor()});
    if (const auto wide = wide_projected(x, epsilon, projections))
      return {wide->projected, wide->skip};
  }
  const auto [projected, skip] = normalized_linear(
      in_full_type(x), {.layer = false, .epsilon = epsilon}, torch::cat(weights), Tensor());
  return {projected, x.scalar_type() == skip.scalar_type() ? skip : x};
}

}  // namespace

Fields HcOptions::fields() {
  return Fields()
      .choice("form", form, {"original", "sigmoid"}, "as published, or with the routes of mhc")
      .add("dynamic", dynamic, "routes of each token; false: one set of routes for all tokens")
      .add_all(hyper.fields());
}

Hc::Map::Map(int64_t outputs, int64_t width, const Tensor& start, bool dynamic) {
  if (dynamic) weight = register_parameter("weight", torch::zeros({outputs, width}));
  bias = register_parameter("bias", start);
}

Hc::Hc(const ResidualConfig& config, const HcOptions& options)
    : HyperConnection(config, "hc", options.hyper, InitialMap::identity),
      dynamic_(options.dynamic) {
  const auto n = config.streams;
  auto first = torch::zeros({n});
  first[config.index % n] = 1.0;
  pre_ = register_module("pre", std::make_shared<Map>(1, width(), first, dynamic_));
  res_ = register_module("res", std::make_shared<Map>(n, width(), torch::eye(n), dynamic_));
  post_ = register_module("post", std::make_shared<Map>(1, width(), torch::ones({n}), dynamic_));
  static_parts_ = {res_->bias};
  if (!dynamic_) return;
  scale_ = register_parameter("scale", torch::full({1}, 0.01));
  post_scale_ = register_parameter("post_scale", torch::full({1}, 0.01));
}

HyperConnection::Routed Hc::route(const Tensor& x) {
  if (!dynamic_) {
    const auto of_every_token = [&](const Tensor& route) {
      auto shape = route.sizes().vec();
      shape.insert(shape.begin(), {x.size(0), x.size(1)});
      return route.expand(shape).contiguous();
    };
    return {.routes = {.res = of_every_token(res_->bias),
                       .read = of_every_token(pre_->bias),
                       .write = of_every_token(post_->bias)},
            .streams = x};
  }
  const auto [raw, skip] =
      stream_projections(x, {pre_->weight, res_->weight, post_->weight}, norm_epsilon());
  return {.routes = tanh_routes(raw, route_parameters()), .streams = skip};
}

TanhRoutes Hc::route_parameters() const {
  return {.scale = scale_,
          .post_scale = post_scale_,
          .pre = pre_->bias,
          .res = res_->bias,
          .post = post_->bias};
}

std::optional<geores::Routed> Hc::routed_at_once(const Tensor& x) {
  return dynamic_ ? geores::Routed::make(x, spec()) : std::nullopt;
}

TanhRoutedSpec Hc::spec() const {
  return {.pre = pre_->weight,
          .res = res_->weight,
          .post = post_->weight,
          .routes = route_parameters(),
          .read_weight = norm_weight(),
          .epsilon = norm_epsilon()};
}

std::unique_ptr<TokenStep> Hc::token_step(int64_t batch) const {
  if (dynamic_) return make_routed_step(spec(), batch);
  return make_fixed_step({.res = res_->bias, .read = pre_->bias, .write = post_->bias},
                         norm_weight(), batch);
}

std::vector<Tensor> Hc::decay_exceptions() const {
  if (!decays_static()) return HyperConnection::decay_exceptions();
  if (!dynamic_) return {pre_->bias};
  return {pre_->bias, post_->weight};
}

SigmoidHc::SigmoidHc(const ResidualConfig& config, const HcOptions& options)
    : SigmoidHyperConnection(config, "hc", options.hyper, InitialMap::identity) {
  projection("res", torch::eye(config.streams));
}

Connection hc_connection() {
  return describe_connection_by<HcOptions, make_hc>(
      {.name = "hc",
       .summary = "hyper-connections, unconstrained mixer",
       .paper = "Zhu et al., arXiv:2409.19606 Eqs. 10-13",
       .variants = {nlohmann::json::object(), {{"form", "sigmoid"}}, {{"dynamic", false}}},
       .silent_at_start = {"scale", "post_scale", "pre.scale", "post.scale", "res.scale"},
       .in_earlier_runs = {{"form", "sigmoid"}, {"norm_epsilon", 1e-6}, {"decay_static", true}}});
}

}  // namespace geores
