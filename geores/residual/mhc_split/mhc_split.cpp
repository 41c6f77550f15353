#include "geores/residual/mhc_split/mhc_split.h"

#include "geores/residual/iterations.h"

namespace geores {

Fields MhcSplitOptions::fields() {
  return Fields().add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations",
                      {.min = 1, .max = kMostIterations});
}

MhcSplit::MhcSplit(const ResidualConfig& config, const MhcSplitOptions& options)
    : RoutedConnection({.layout = StreamLayout::split,
                        .streams = config.streams,
                        .state_width = config.width,
                        .sublayer_width = config.width}),
      iterations_(options.sinkhorn_iterations) {
  require_streams(config, traits_.layout, "mhc_split");
  const auto width = config.width, n = config.streams;
  const auto scale = torch::full({1}, 0.01);
  const auto project = [&](const char* name, const Tensor& bias) {
    return register_module(name,
                           std::make_shared<ScaledProjection>(width, bias, scale, kInitialStd));
  };
  norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
  rms_weight_ = register_parameter("rms_weight", torch::ones({width}));
  pre_ = project("pre", torch::zeros({n}));
  post_ = project("post", torch::zeros({n}));
  res_ = project("res", 2 * torch::eye(n));
}

RoutedSpec MhcSplit::spec() const {
  return {.streams = streams(),
          .width = stream_width(),
          .norm = {.layer = false, .weight = rms_weight_},
          .projections = {pre_->weights(), post_->weights(), res_->weights()},
          .routing = GuardedRouting{.iterations = iterations_},
          .read_norm = {.weight = norm_->weight()},
          .tiles = streams()};
}

Connection mhc_split_connection() {
  return describe_connection<MhcSplit, MhcSplitOptions>(
      {.name = "mhc_split",
       .summary = "the EΔ paper's mHC baseline: Sinkhorn mixer on split streams",
       .paper = "arXiv:2605.06729 Sec. 5",
       .has_token_step = always});
}

}  // namespace geores
