#include "geores/residual/hyper_connection.h"

#include "geores/ops/streams/streams.h"
#include "geores/residual/probe_routes.h"

namespace geores {

HyperConnection::HyperConnection(const ResidualConfig& config, const std::string& name,
                                 InitialMap initial_map, bool read_norm)
    : traits_{.layout = StreamLayout::expand,
              .streams = config.streams,
              .state_width = config.streams * config.width,
              .sublayer_width = config.width,
              .initial_map = initial_map} {
  require_streams(config, traits_.layout, name);
  if (read_norm) norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
  auto bias = torch::full({config.streams}, -1.0);
  bias[config.index % config.streams] = 1.0;
  projection("pre", bias);
  projection("post", bias);
}

std::shared_ptr<ScaledProjection> HyperConnection::projection(const std::string& name,
                                                              const Tensor& bias) {
  auto made = register_module(
      name, std::make_shared<ScaledProjection>(traits_.state_width, bias, torch::full({1}, 0.01)));
  projections_.push_back(made.get());
  return made;
}

Tensor HyperConnection::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  const auto [projected, state] =
      ScaledProjection::forward_all(projections_, join_streams(x), {.layer = false});
  const auto pre = torch::sigmoid(projected[0]);
  const auto post = 2 * torch::sigmoid(projected[1]);
  const Routes routes{
      .res = mixing({projected.begin() + 2, projected.end()}), .read = pre, .write = post};
  probe_routes(trace, routes);
  const auto split = split_streams(state, traits_.streams);
  if (!norm_)
    return mix_and_write(routes.res, split, routes.write, f(collect_streams(routes.read, split)));
  const auto [normalized, streams] = collect_and_norm(routes.read, split, norm_->weight());
  return mix_and_write(routes.res, streams, routes.write, f(normalized));
}

}  // namespace geores
