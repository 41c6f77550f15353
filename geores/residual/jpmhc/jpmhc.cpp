#include "geores/residual/jpmhc/jpmhc.h"

#include "geores/base/error.h"
#include "geores/ops/routed/routed.h"
#include "geores/ops/streams/streams.h"
#include "geores/residual/jpmhc/expanded.h"
#include "geores/residual/probe_routes.h"
#include "geores/residual/routed_step.h"

namespace geores {
namespace {

std::shared_ptr<Residual> make_jpmhc(const ResidualConfig& config, const JpmhcOptions& options) {
  if (options.layout == "expand") return std::make_shared<ExpandedJpmhc>(config, options);
  require(options.mixer != "reflections" && options.mixer != "quaternions", "jpmhc",
          "mixer {} needs layout expand", options.mixer);
  return std::make_shared<Jpmhc>(config, options);
}

}  // namespace

Jpmhc::Jpmhc(const ResidualConfig& config, const JpmhcOptions& options)
    : traits_{.layout = StreamLayout::split,
              .streams = config.streams,
              .state_width = config.width,
              .sublayer_width = config.width / std::max<int64_t>(config.streams, 1),
              .orthogonal = options.mixer == "cayley_exact" || options.mixer == "identity"} {
  require_streams(config, traits_.layout, "jpmhc");
  if (options.read_norm == "layer")
    norm_ = register_module("norm", std::make_shared<LayerNorm>(traits_.sublayer_width));
  mixer_ = register_module("mixer", make_jpmhc_mixer(config.width, config.streams, options));
  traits_.initial_map = mixer_->initial_map();
}

Tensor Jpmhc::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  const auto known = spec();
  if (const auto routed = known ? Routed::make(x, *known) : std::nullopt) {
    if (trace.probing()) probe_routes(trace, routed->routes());
    return join_streams(routed->write(f(routed->normalized())));
  }
  const auto a = around(x, trace);
  return join_streams(a.wide ? a.wide->write(f(a.wide->read())) : composed(a, f));
}

std::optional<RoutedSpec> Jpmhc::spec() const {
  auto spec = norm_ ? mixer_->spec() : std::nullopt;
  if (spec) spec->read_weight = norm_->weight();
  return spec;
}

std::unique_ptr<TokenStep> Jpmhc::token_step(int64_t batch) const {
  const auto known = spec();
  return known ? make_routed_step(*known, batch) : nullptr;
}

PostNormed Jpmhc::forward_normalized(const Tensor& x, const Sublayer& f, const PostNorm& norm,
                                     Trace& trace) {
  // With a norm before the sublayer, forward() may have its own kernel.
  if (norm_) return Residual::forward_normalized(x, f, norm, trace);
  const auto a = around(x, trace);
  if (!a.wide) return post_norm_of_tokens(join_streams(composed(a, f)), norm);
  return joined(a.wide->write_normalized(f(a.wide->read()), norm));
}

Jpmhc::Around Jpmhc::around(const Tensor& x, Trace& trace) {
  const auto [routes, state] = mixer_->route(x);
  probe_routes(trace, routes);
  const auto streams = split_streams(state, traits_.streams);
  const auto read_norm =
      norm_ ? ReadNormSpec{.kind = ReadNormSpec::Kind::layer, .weight = norm_->weight()}
            : ReadNormSpec{.kind = ReadNormSpec::Kind::none};
  return {
      .routes = routes, .streams = streams, .wide = WideStreams::make(routes, streams, read_norm)};
}

Tensor Jpmhc::composed(const Around& a, const Sublayer& f) const {
  const auto& [res, read, write] = a.routes;
  if (!norm_) return mix_and_write(res, a.streams, write, f(collect_streams(read, a.streams)));
  const auto [normalized, streams] = collect_and_norm(read, a.streams, norm_->weight());
  return mix_and_write(res, streams, write, f(normalized));
}

bool Jpmhc::supports_bf16_state() const {
  return takes_half_streams(traits_.streams, traits_.sublayer_width);
}

std::vector<Tensor> Jpmhc::manifold_parameters() const { return mixer_->manifold_parameters(); }
void Jpmhc::manifold_step() { mixer_->manifold_step(); }

Connection jpmhc_connection() {
  return describe_connection_by<JpmhcOptions, make_jpmhc>(
      {.name = "jpmhc",
       .summary =
           "per-token mixers: Cayley, Sinkhorn, Grassmann, permutations, reflections, quaternions",
       .paper = "JPmHC, arXiv:2602.18308",
       .variants = {{{"mixer", "cayley"}},
                    {{"mixer", "cayley_exact"}, {"bias", false}},
                    {{"mixer", "sinkhorn"}},
                    {{"mixer", "grassmann"}},
                    {{"mixer", "permutation"}},
                    {{"mixer", "identity"}},
                    {{"mixer", "sinkhorn_softmax"}, {"read_norm", "none"}},
                    {{"mixer", "cayley"}, {"generator_norm", "rms"}, {"read_norm", "none"}},
                    {{"layout", "expand"}, {"mixer", "cayley"}, {"cayley_alpha", 1.0}},
                    {{"layout", "expand"}, {"mixer", "cayley_exact"}},
                    {{"layout", "expand"}, {"mixer", "reflections"}, {"read_norm", "none"}},
                    {{"layout", "expand"}, {"mixer", "quaternions"}},
                    {{"layout", "expand"}, {"mixer", "grassmann"}},
                    {{"layout", "expand"}, {"mixer", "permutation"}}},
       .silent_at_start = {"mixer.pre.scale", "mixer.post.scale", "mixer.res.scale", "pre.scale",
                           "post.scale", "res.scale"},
       .in_earlier_runs = {{"permutation_seed", 0}}});
}

}  // namespace geores
