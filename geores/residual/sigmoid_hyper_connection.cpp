#include "geores/residual/sigmoid_hyper_connection.h"

#include "geores/ops/streams/streams.h"
#include "geores/residual/routed_step.h"

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

std::optional<RoutedSpec> SigmoidHyperConnection::spec() const {
  const auto norm = read_norm();
  const auto mixer = routing();
  if (!mixer || norm.kind != ReadNormSpec::Kind::layer || read_offset() != 0) return std::nullopt;
  std::vector<ProjectionWeights> weights;
  for (const auto* projection : projections_) weights.push_back(projection->weights());
  return RoutedSpec{.streams = streams(),
                    .norm = {.layer = false, .epsilon = norm_epsilon()},
                    .projections = weights,
                    .routing = *mixer,
                    .read_weight = norm.weight};
}

std::optional<geores::Routed> SigmoidHyperConnection::routed_at_once(const Tensor& x) {
  if (!x.is_cuda()) return std::nullopt;
  const auto routed = spec();
  return routed ? geores::Routed::make(join_streams(x), *routed) : std::nullopt;
}

std::unique_ptr<TokenStep> SigmoidHyperConnection::token_step(int64_t batch) const {
  const auto routed = spec();
  return routed ? make_routed_step(*routed, batch) : nullptr;
}

HyperConnection::Routed SigmoidHyperConnection::route(const Tensor& x) {
  const auto [routes, state] = ScaledProjection::forward_sigmoids(
      projections_, join_streams(x), {.layer = false, .epsilon = norm_epsilon()}, streams(),
      read_offset());
  const auto& [read, write, others] = routes;
  std::vector<int64_t> sizes;  // of the mixer's projections
  for (size_t i = 2; i < projections_.size(); ++i) sizes.push_back(projections_[i]->bias().numel());
  // A single part needs no split, and no concatenation in the backward pass.
  auto projected = sizes.size() > 1 ? others.split_with_sizes(sizes, -1)
                                    : std::vector<Tensor>(sizes.size(), others);
  for (size_t i = 0; i < projected.size(); ++i) {
    const auto& bias = projections_[i + 2]->bias();
    if (bias.dim() > 1) projected[i] = projected[i].unflatten(-1, bias.sizes());
  }
  return {.routes = {.res = mixing(projected, read), .read = read, .write = write},
          .streams = split_streams(state, streams())};
}

}  // namespace geores
