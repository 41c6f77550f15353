#include "geores/residual/mhc_split/mhc_split.h"

#include "geores/ops/routed/routes.h"
#include "geores/ops/streams/streams.h"
#include "geores/residual/iterations.h"
#include "geores/residual/probe_routes.h"
#include "geores/residual/routed_step.h"

namespace geores {
Fields MhcSplitOptions::fields() {
  return Fields().add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations",
                      {.min = 1, .max = kMostIterations});
}

MhcSplit::MhcSplit(const ResidualConfig& config, const MhcSplitOptions& options)
    : iterations_(options.sinkhorn_iterations),
      traits_{.layout = StreamLayout::split,
              .streams = config.streams,
              .state_width = config.width,
              .sublayer_width = config.width} {
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
  return {.streams = traits_.streams,
          .norm = {.layer = false, .weight = rms_weight_},
          .projections = {pre_->weights(), post_->weights(), res_->weights()},
          .routing = GuardedRouting{.iterations = iterations_},
          .read_weight = norm_->weight()};
}

std::unique_ptr<TokenStep> MhcSplit::token_step(int64_t batch) const {
  return make_routed_step(spec(), batch);
}

Tensor MhcSplit::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  const auto n = traits_.streams;
  const auto routed_spec = spec();
  if (const auto routed = Routed::make(x, routed_spec)) {
    if (trace.probing()) probe_routes(trace, routed->routes());
    return join_streams(routed->write(split_streams(f(routed->normalized()), n)));
  }
  const auto [projected, state] =
      ScaledProjection::forward_joined({pre_.get(), post_.get(), res_.get()}, x, routed_spec.norm);
  const auto routes = guarded_routes(projected, n, iterations_);
  probe_routes(trace, routes);
  const auto [normalized, streams] =
      collect_and_norm(routes.read, split_streams(state, n), norm_->weight(), /*tiles=*/n);
  return join_streams(
      mix_and_write(routes.res, streams, routes.write, split_streams(f(normalized), n)));
}

Connection mhc_split_connection() {
  return describe_connection<MhcSplit, MhcSplitOptions>(
      {.name = "mhc_split",
       .summary = "the EΔ paper's mHC baseline: Sinkhorn mixer on split streams",
       .paper = "arXiv:2605.06729 Sec. 5"});
}

}  // namespace geores
