// The definition of every routed connection, operation by operation; each of them may have kernels.
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/mixers/permutations.h"
#include "geores/ops/mixers/sphere.h"
#include "geores/ops/routed/forms/forms.h"
#include "geores/ops/routed/projected.h"
#include "geores/ops/routed/softmax_routes.h"
#include "geores/ops/routed/wide_routes.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

// Calls the routing's own function: one overload for each alternative of Routing. x (B, T, n·d).
struct RoutesOf {
  const RoutedInput& in;
  const RoutedSpec& spec;

  const Tensor& x() const { return in.x; }
  Tensor streams(const Tensor& state) const { return split_streams(state, spec.streams); }

  // Softmax routes. The projection's norm and product for rows of any length.
  ProjectionAndSkip generated(const Tensor& state) const {
    const auto& [weight, bias, scale] = spec.projections.at(0);
    const auto type = full_type(state.scalar_type());
    if (in.normalized.defined()) return {linear_map_to(in.normalized, weight, bias, type), state};
    if (spec.norm.layer && state.scalar_type() == type)
      return normalized_linear(state, spec.norm, weight, bias);
    const auto full = in_full_type(state);  // a state without kernels
    if (spec.norm.layer) return {normalized_linear(full, spec.norm, weight, bias).projected, state};
    return {linear_map_to(rms_normalize(full, spec.norm.epsilon), weight, bias, type), state};
  }

  // The same routes where one kernel makes them of the state; undefined `read` where none does.
  SoftmaxRoutes at_once(const Tensor& state, const CayleyRouting& routing) const {
    if (in.normalized.defined()) return {};
    const auto& [weight, bias, scale] = spec.projections.at(0);
    return wide_softmax_routes(state, {spec.norm, weight, bias}, spec.streams, routing)
        .value_or(SoftmaxRoutes());
  }

  RoutesAndStreams read_and_write(const Tensor& state, double temperature) const {
    if (auto made = at_once(state, {.temperature = temperature}); made.skip.defined())
      return {made.routes, streams(made.skip)};
    const auto [raw, skip] = generated(state);
    const auto [read, write] = softmax_read_write(raw, spec.streams, temperature);
    return {{.res = {}, .read = read, .write = write}, streams(skip)};
  }

  RoutesAndStreams operator()(const CayleyRouting& routing) const {
    if (auto made = at_once(x(), routing); made.skip.defined())
      return {made.routes, streams(made.skip)};
    const auto [raw, skip] = generated(x());
    return {cayley_routes(raw, spec.streams, routing), streams(skip)};
  }

  RoutesAndStreams operator()(const StreamRouting&) const { return read_and_write(x(), 1.0); }

  RoutesAndStreams operator()(const SoftmaxRouting& routing) const {
    const auto [res, skip] = routing.mixing(x());
    auto made = read_and_write(skip, routing.temperature);
    made.routes.res = res;
    return made;
  }

  // Hyper-connections whose streams route themselves.
  RoutesAndStreams operator()(const TanhRouting& routing) const {
    const auto [raw, skip] = of_streams(streams(x()));
    return {tanh_routes(raw, routing.routes), skip};
  }

  // RMSNorm of each stream, all projections of it side by side, and the streams.
  ProjectionAndSkip of_streams(const Tensor& each) const {
    if (runs_cuda_kernel(each) || runs_half_state_kernel(each)) {
      const auto no_bias = torch::zeros({spec.streams}, spec.projections[0].weight.options());
      auto projections = spec.projections;
      for (auto& p : projections) p.bias = no_bias.slice(0, 0, p.weight.size(0));
      if (const auto wide = wide_projected(each, spec.norm.epsilon, projections))
        return {wide->projected, wide->skip};
    }
    std::vector<Tensor> weights;
    for (const auto& p : spec.projections) weights.push_back(p.weight);
    const auto [raw, skip] =
        normalized_linear(in_full_type(each), spec.norm, torch::cat(weights), Tensor());
    return {raw, each.scalar_type() == skip.scalar_type() ? skip : each};
  }

  RoutesAndStreams operator()(const FixedRouting& routing) const {
    const auto of_every_token = [&](const Tensor& route) {
      auto shape = route.sizes().vec();
      shape.insert(shape.begin(), {x().size(0), x().size(1)});
      return route.expand(shape).contiguous();
    };
    const auto& [res, read, write] = routing.routes;
    return {
        {.res = of_every_token(res), .read = of_every_token(read), .write = of_every_token(write)},
        streams(x())};
  }

  // Sigmoid routes, each with its mixer.
  template <class Mixer>
  RoutesAndStreams operator()(const Mixer& mixer) const {
    const auto [made, skip] =
        projected_sigmoids(x(), spec.norm, spec.projections, spec.streams, spec.read_offset);
    return {{.res = mixed(mixer, of_mixer(made.others), made.read),
             .read = made.read,
             .write = made.write},
            streams(skip)};
  }

  // The outputs of the mixer's own projections, behind those of read and write.
  std::vector<Tensor> of_mixer(const Tensor& others) const {
    std::vector<int64_t> sizes;
    for (size_t i = 2; i < spec.projections.size(); ++i)
      sizes.push_back(spec.projections[i].bias.numel());
    // A single part needs no split, and no concatenation in the backward pass.
    auto parts = sizes.size() > 1 ? others.split_with_sizes(sizes, -1)
                                  : std::vector<Tensor>(sizes.size(), others);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& bias = spec.projections[i + 2].bias;
      if (bias.dim() > 1) parts[i] = parts[i].unflatten(-1, bias.sizes());
    }
    return parts;
  }

  using Parts = std::vector<Tensor>;
  Tensor mixed(const SinkhornRouting& routing, const Parts& parts, const Tensor&) const {
    return sinkhorn(parts[0], routing.spec);
  }
  Tensor mixed(const GuardedRouting& routing, const Parts& parts, const Tensor&) const {
    return guarded_sinkhorn(parts[0], routing.iterations);
  }
  Tensor mixed(const SoftmaxSinkhornRouting& routing, const Parts& parts, const Tensor&) const {
    return softmax_sinkhorn(parts[0], routing.iterations, routing.guard);
  }
  Tensor mixed(const PermutationRouting& routing, const Parts& parts, const Tensor&) const {
    return all_permutations_mixture(parts[0], routing.permutations);
  }
  Tensor mixed(const SphereRouting& routing, const Parts& parts, const Tensor&) const {
    const auto turned = [](const Tensor& amplitude, const Tensor& raw) {
      const auto entries = torch::tanh(raw);
      return amplitude.defined() ? amplitude * entries : entries;
    };
    const auto singular = torch::tanh(parts.back());
    if (parts.size() == 1) return spectral_sphere({}, {}, singular, routing.helmert, {});
    return spectral_sphere(turned(routing.left_amplitude, parts[0]),
                           turned(routing.right_amplitude, parts[1]), singular, routing.helmert,
                           routing.skew_basis);
  }
  Tensor mixed(const FreeRouting&, const Parts& parts, const Tensor&) const { return parts[0]; }
  Tensor mixed(const IdentityRouting&, const Parts&, const Tensor& like) const {
    const auto n = spec.streams;
    return torch::eye(n, like.options()).expand({like.size(0), like.size(1), n, n});
  }
  Tensor mixed(const MixerRouting& routing, const Parts& parts, const Tensor&) const {
    return routing.mixing(parts);
  }
};

// Norm(Σ_j read_j x_j), and the streams for the operations after it.
NormAndSkip read_of(const Tensor& read, const Tensor& streams, const RoutedSpec& spec) {
  const auto& norm = spec.read_norm;
  if (norm.kind == ReadNormSpec::Kind::layer)
    return collect_and_norm(read, streams, norm.weight, spec.tiles);
  const auto collected = collect_streams(read, streams);
  if (norm.kind == ReadNormSpec::Kind::none) return {collected, streams};
  return {rms_norm_and_skip(collected, norm.weight, norm.epsilon).normalized, streams};
}

class ComposedForm final : public RoutedForm {
 public:
  ComposedForm(const NormAndSkip& read, const Routes& routes)
      : RoutedForm(read.normalized, read.skip, routes) {}

  Tensor write(const Tensor& y) const override {
    if (!routes_.res.defined()) return state_ + spread_to_streams(routes_.write, y);
    return mix_and_write(routes_.res, state_, routes_.write, y);
  }
};

}  // namespace

RoutesAndStreams routes_of(const RoutedInput& in, const RoutedSpec& spec) {
  return std::visit(RoutesOf{in, spec}, spec.routing);
}

std::unique_ptr<RoutedForm> composed_form(const RoutedInput& in, const RoutedSpec& spec) {
  const auto [routes, streams] = routes_of(in, spec);
  return std::make_unique<ComposedForm>(read_of(in.read_of(routes), streams, spec), routes);
}

}  // namespace geores
