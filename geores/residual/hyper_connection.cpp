#include "geores/residual/hyper_connection.h"

#include "geores/ops/streams/streams.h"
#include "geores/residual/probe_routes.h"

namespace geores {

Fields HyperOptions::fields() {
  return Fields()
      .add("norm_epsilon", norm_epsilon, "in the RMSNorm before the routes; 0: none", {.min = 0})
      .add("decay_static", decay_static, "weight decay on the static part of the mixer too");
}

HyperConnection::HyperConnection(const ResidualConfig& config, const std::string& name,
                                 const HyperOptions& options, InitialMap initial_map,
                                 bool orthogonal, bool read_norm)
    : traits_{.layout = StreamLayout::expand,
              .streams = config.streams,
              .state_width = config.streams * config.width,
              .sublayer_width = config.width,
              .orthogonal = orthogonal,
              .initial_map = initial_map},
      options_(options) {
  require_streams(config, traits_.layout, name);
  if (read_norm) norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
}

ReadNormSpec HyperConnection::read_norm() const {
  if (!norm_) return {.kind = ReadNormSpec::Kind::none};
  return {.kind = ReadNormSpec::Kind::layer, .weight = norm_weight()};
}

NormAndSkip HyperConnection::read(const Tensor& pre, const Tensor& streams) const {
  const auto norm = read_norm();
  if (norm.kind == ReadNormSpec::Kind::layer) return collect_and_norm(pre, streams, norm.weight);
  const auto collected = collect_streams(pre, streams);
  if (norm.kind == ReadNormSpec::Kind::none) return {collected, streams};
  return {rms_norm_and_skip(collected, norm.weight, norm.epsilon).normalized, streams};
}

Tensor HyperConnection::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  if (const auto routed = routed_at_once(x)) {
    if (trace.probing()) probe_routes(trace, routed->routes());
    return routed->write(f(routed->normalized()));
  }
  const auto [routes, streams] = route(x);
  probe_routes(trace, routes);
  if (const auto wide = WideStreams::make(routes, streams, read_norm()))
    return wide->write(f(wide->read()));
  return composed(routes, streams, f);
}

PostNormed HyperConnection::forward_normalized(const Tensor& x, const Sublayer& f,
                                               const PostNorm& norm, Trace& trace) {
  const auto [routes, streams] = route(x);
  probe_routes(trace, routes);
  if (const auto wide = WideStreams::make(routes, streams, read_norm()))
    return wide->write_normalized(f(wide->read()), norm);
  return post_norm_of_tokens(composed(routes, streams, f), norm);
}

Tensor HyperConnection::composed(const Routes& routes, const Tensor& streams,
                                 const Sublayer& f) const {
  const auto [normalized, skip] = read(routes.read, streams);
  return mix_and_write(routes.res, skip, routes.write, f(normalized));
}

bool HyperConnection::supports_bf16_state() const {
  return takes_half_streams(traits_.streams, traits_.sublayer_width);
}

std::vector<Tensor> HyperConnection::decay_exceptions() const {
  std::vector<Tensor> exceptions;
  for (const auto& part : static_parts_)
    if ((part.dim() >= 2) != options_.decay_static) exceptions.push_back(part);
  return exceptions;
}

}  // namespace geores
