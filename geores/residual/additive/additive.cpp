#include "geores/residual/additive/additive.h"

namespace geores {

Fields AdditiveOptions::fields() {
  return Fields().choice("norm", norm, {"pre", "post"}, "where the LayerNorm stands");
}

Additive::Additive(const ResidualConfig& config, const AdditiveOptions& options)
    : pre_norm_(options.norm == "pre"),
      traits_{.state_width = config.width,
              .sublayer_width = config.width,
              .orthogonal = pre_norm_,
              .initial_map = pre_norm_ ? InitialMap::identity : InitialMap::other} {
  require_streams(config, traits_.layout, "additive");
  norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
}

Tensor Additive::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  if (!pre_norm_) return norm_->forward(x + f(x));
  trace.probe("operator", [&] { return torch::ones({1, 1, 1, 1}, x.options()); });
  const auto [normalized, skip] = norm_->forward_and_skip(x);
  return skip + f(normalized);
}

Connection additive_connection() {
  return describe_connection<Additive, AdditiveOptions>(
      {.name = "additive",
       .summary = "x + F(LN(x)): the plain transformer, pre- or post-norm",
       .paper = "GPT-2; Vaswani et al. 2017",
       .variants = {{{"norm", "pre"}}, {{"norm", "post"}}}});
}

}  // namespace geores
