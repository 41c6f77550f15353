#include "geores/residual/hyper_connection.h"

#include "geores/ops/streams.h"

namespace geores {

HyperConnection::HyperConnection(const ResidualConfig& config, const std::string& name,
                                 InitialMap initial_map)
    : traits_{.layout = StreamLayout::expand,
              .streams = config.streams,
              .state_width = config.streams * config.width,
              .sublayer_width = config.width,
              .initial_map = initial_map} {
  require_streams(config, traits_.layout, name);
  norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
  auto bias = torch::full({config.streams}, -1.0);
  bias[config.index % config.streams] = 1.0;
  pre_ = projection("pre", bias);
  post_ = projection("post", bias);
}

std::shared_ptr<ScaledProjection> HyperConnection::projection(const std::string& name,
                                                              const Tensor& bias) {
  return register_module(
      name, std::make_shared<ScaledProjection>(traits_.state_width, bias, torch::full({1}, 0.01)));
}

Tensor HyperConnection::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  const auto normalized = rms_normalize(join_streams(x));
  const auto pre = torch::sigmoid(pre_->forward(normalized));
  const auto post = 2 * torch::sigmoid(post_->forward(normalized));
  const auto res = mixing(normalized);
  trace.probe("operator", [&] { return res; });
  trace.probe("pre", [&] { return pre; });
  trace.probe("post", [&] { return post; });
  const auto branch = f(norm_->forward(collect_streams(pre, x)));
  return mix_streams(res, x) + spread_to_streams(post, branch);
}

}  // namespace geores
