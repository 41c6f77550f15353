#include "geores/residual/hc/hc.h"

#include "geores/base/error.h"

namespace geores {
namespace {

std::shared_ptr<Residual> make_hc(const ResidualConfig& config, const HcOptions& options) {
  if (options.form == "sigmoid") {
    require(options.dynamic, "hc", "only form original has static routes (dynamic = false)");
    return std::make_shared<SigmoidHc>(config, options);
  }
  return std::make_shared<Hc>(config, options);
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
  pre_ = register_module("pre", std::make_shared<Map>(1, stream_width(), first, dynamic_));
  res_ = register_module("res", std::make_shared<Map>(n, stream_width(), torch::eye(n), dynamic_));
  post_ =
      register_module("post", std::make_shared<Map>(1, stream_width(), torch::ones({n}), dynamic_));
  static_parts_ = {res_->bias};
  if (!dynamic_) return;
  scale_ = register_parameter("scale", torch::full({1}, 0.01));
  post_scale_ = register_parameter("post_scale", torch::full({1}, 0.01));
}

RoutedSpec Hc::spec() const {
  if (!dynamic_)
    return spec_with(FixedRouting{{.res = res_->bias, .read = pre_->bias, .write = post_->bias}});
  auto spec = spec_with(TanhRouting{{.scale = scale_,
                                     .post_scale = post_scale_,
                                     .pre = pre_->bias,
                                     .res = res_->bias,
                                     .post = post_->bias}});
  for (const auto& map : {pre_, res_, post_}) spec.projections.push_back({map->weight, {}, {}});
  return spec;
}

std::vector<Tensor> Hc::decay_exceptions() const {
  if (!decays_static()) return HyperConnection::decay_exceptions();
  if (!dynamic_) return {pre_->bias};
  return {pre_->bias, post_->weight};
}

SigmoidHc::SigmoidHc(const ResidualConfig& config, const HcOptions& options)
    : HyperConnection(config, "hc", options.hyper, InitialMap::identity) {
  add_sigmoid_routes(config.index);
  projection("res", torch::eye(config.streams));
}

Connection hc_connection() {
  return describe_connection_by<HcOptions, make_hc>(
      {.name = "hc",
       .summary = "hyper-connections, unconstrained mixer",
       .paper = "Zhu et al., arXiv:2409.19606 Eqs. 10-13",
       .variants = {nlohmann::json::object(), {{"form", "sigmoid"}}, {{"dynamic", false}}},
       .silent_at_start = {"scale", "post_scale", "pre.scale", "post.scale", "res.scale"},
       .in_earlier_runs = {{"form", "sigmoid"}, {"norm_epsilon", 1e-6}, {"decay_static", true}},
       .has_token_step = always});
}

}  // namespace geores
