#include "geores/residual/sigmoid_hyper_connection.h"

#include "geores/ops/routed/route_maps.h"
#include "geores/ops/streams/streams.h"

namespace geores {

SigmoidHyperConnection::SigmoidHyperConnection(const ResidualConfig& config,
                                               const std::string& name, const HyperOptions& options,
                                               InitialMap initial_map, bool orthogonal,
                                               bool read_norm)
    : HyperConnection(config, name, options, initial_map, orthogonal, read_norm) {
  auto bias = torch::full({config.streams}, -1.0);
  bias[config.index % config.streams] = 1.0;
  add("pre", bias);
  add("post", bias);
}

std::shared_ptr<ScaledProjection> SigmoidHyperConnection::add(const std::string& name,
                                                              const Tensor& bias) {
  auto made = register_module(
      name, std::make_shared<ScaledProjection>(traits().state_width, bias, torch::full({1}, 0.01)));
  projections_.push_back(made.get());
  return made;
}

std::shared_ptr<ScaledProjection> SigmoidHyperConnection::projection(const std::string& name,
                                                                     const Tensor& bias) {
  auto made = add(name, bias);
  static_parts_.push_back(made->bias());
  return made;
}

HyperConnection::Routed SigmoidHyperConnection::route(const Tensor& x) {
  const auto [joined, state] = ScaledProjection::forward_joined(
      projections_, join_streams(x), {.layer = false, .epsilon = norm_epsilon()});
  const auto [read, write, others] = sigmoid_routes(joined, streams(), read_offset());
  std::vector<Tensor> projected;  // of the mixer
  int64_t used = 0;
  for (size_t i = 2; i < projections_.size(); ++i) {
    const auto& bias = projections_[i]->bias();
    const auto part = others.slice(-1, used, used + bias.numel());
    projected.push_back(bias.dim() > 1 ? part.unflatten(-1, bias.sizes()) : part);
    used += bias.numel();
  }
  return {.routes = {.res = mixing(projected, read), .read = read, .write = write},
          .streams = split_streams(state, streams())};
}

}  // namespace geores
