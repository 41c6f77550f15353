#include "geores/residual/jpmhc/jpmhc.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/residual/jpmhc/expanded.h"

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
    : RoutedConnection(
          {.layout = StreamLayout::split,
           .streams = config.streams,
           .state_width = config.width,
           .sublayer_width = config.width / std::max<int64_t>(config.streams, 1),
           .orthogonal = options.mixer == "cayley_exact" || options.mixer == "identity"}) {
  require_streams(config, traits_.layout, "jpmhc");
  if (options.read_norm == "layer")
    norm_ = register_module("norm", std::make_shared<LayerNorm>(traits_.sublayer_width));
  mixer_ = register_module("mixer", make_jpmhc_mixer(config.width, config.streams, options));
  traits_.initial_map = mixer_->initial_map();
}

RoutedSpec Jpmhc::spec() const {
  auto spec = mixer_->spec();
  if (norm_)
    spec.read_norm.weight = norm_->weight();
  else
    spec.read_norm.kind = ReadNormSpec::Kind::none;
  return spec;
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
       .in_earlier_runs = {{"permutation_seed", 0}},
       .has_token_step = [](const nlohmann::json& options, int64_t) {
         const auto option = [&](const char* key, const char* otherwise) {
           return option_or<std::string>(options, key, otherwise);
         };
         return option("layout", "split") == "split" &&
                option("mixer", "cayley").starts_with("cayley") &&
                option("read_norm", "layer") == "layer";
       }});
}

}  // namespace geores
