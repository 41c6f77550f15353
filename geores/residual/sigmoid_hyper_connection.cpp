#include "geores/residual/sigmoid_hyper_connection.h"

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
  const auto [projected, state] = ScaledProjection::forward_all(
      projections_, join_streams(x), {.layer = false, .epsilon = norm_epsilon()});
  return {.routes = {.res = mixing({projected.begin() + 2, projected.end()}, projected[0]),
                     .read = reading(projected[0]),
                     .write = 2 * torch::sigmoid(projected[1])},
          .streams = split_streams(state, streams())};
}

}  // namespace geores
