#include "geores/residual/hyper_connection.h"

namespace geores {

Fields HyperOptions::fields() {
  return Fields()
      .add("norm_epsilon", norm_epsilon, "in the RMSNorm before the routes; 0: none", {.min = 0})
      .add("decay_static", decay_static, "weight decay on the static part of the mixer too");
}

HyperConnection::HyperConnection(const ResidualConfig& config, const std::string& name,
                                 const HyperOptions& options, InitialMap initial_map,
                                 bool orthogonal, bool read_norm)
    : RoutedConnection({.layout = StreamLayout::expand,
                        .streams = config.streams,
                        .state_width = config.streams * config.width,
                        .sublayer_width = config.width,
                        .orthogonal = orthogonal,
                        .initial_map = initial_map}),
      options_(options) {
  require_streams(config, traits_.layout, name);
  if (read_norm) norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
}

void HyperConnection::add_sigmoid_routes(int64_t index) {
  auto bias = torch::full({streams()}, -1.0);
  bias[index % streams()] = 1.0;
  add("pre", bias);
  add("post", bias);
}

std::shared_ptr<ScaledProjection> HyperConnection::add(const std::string& name,
                                                       const Tensor& bias) {
  auto made = register_module(
      name, std::make_shared<ScaledProjection>(traits_.state_width, bias, torch::full({1}, 0.01)));
  projections_.push_back(made.get());
  return made;
}

std::shared_ptr<ScaledProjection> HyperConnection::projection(const std::string& name,
                                                              const Tensor& bias) {
  auto made = add(name, bias);
  static_parts_.push_back(made->bias());
  return made;
}

RoutedSpec HyperConnection::spec_with(const Routing& routing) const {
  RoutedSpec spec{.streams = streams(),
                  .width = stream_width(),
                  .norm = {.layer = false, .epsilon = norm_epsilon()},
                  .projections = {},
                  .routing = routing};
  for (const auto* projection : projections_) spec.projections.push_back(projection->weights());
  if (norm_)
    spec.read_norm.weight = norm_->weight();
  else
    spec.read_norm.kind = ReadNormSpec::Kind::none;
  return spec;
}

std::vector<Tensor> HyperConnection::decay_exceptions() const {
  std::vector<Tensor> exceptions;
  for (const auto& part : static_parts_)
    if ((part.dim() >= 2) != options_.decay_static) exceptions.push_back(part);
  return exceptions;
}

}  // namespace geores
