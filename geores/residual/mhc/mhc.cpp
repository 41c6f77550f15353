#include "geores/residual/mhc/mhc.h"

#include "geores/base/error.h"
#include "geores/modules/stream_head.h"
#include "geores/residual/iterations.h"

namespace geores {
namespace {

constexpr double kV4NormEpsilon = 1e-6;  // of the published configuration

bool has_no_mixer(const MhcOptions& options) { return options.mixer == "identity"; }

std::shared_ptr<Residual> make_mhc(const ResidualConfig& config, const MhcOptions& options) {
  if (options.form == "paper") return std::make_shared<Mhc>(config, options);
  require(!has_no_mixer(options), "mhc", "mixer = identity is an option of form = paper");
  require(options.form == "v4" || options.head == "sum", "mhc",
          "form = v41 collapses the streams by its last H_pre; head = learned is for other forms");
  auto v4 = options;
  if (v4.hyper.norm_epsilon == 0) v4.hyper.norm_epsilon = kV4NormEpsilon;
  return std::make_shared<Mhc>(config, v4);
}

}  // namespace

Fields MhcOptions::fields() {
  return Fields()
      .choice("form", form, {"paper", "v4", "v41"},
              "as published, as DeepSeek-V4 ships it, or as DeepSeek-V4.1 does")
      .choice("mixer", mixer, {"sinkhorn", "identity"}, "H_res, or none as a control")
      .add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations",
           {.min = 1, .max = kMostIterations})
      .choice("sinkhorn_gradient", sinkhorn_gradient, {"implicit", "unrolled"},
              "of the fixed point, or of the iterations that were run")
      .choice("sinkhorn_order", sinkhorn_order, {"rows_last", "columns_last"},
              "which sums are exact: rows in mHC, columns in the public mHC-lite code")
      .add("logit_bound", logit_bound, "clamps the mixer's logits; 0: no clamp",
           {.min = 0, .max = 24})
      .add("off_diagonal", off_diagonal, "where the mixer's logits start off the diagonal")
      .add("guard", guard, "ε of the forms v4 and v41 and of head = learned", {.min = 0})
      .choice("head", head, {"sum", "learned"}, "how the streams are combined after the last block")
      .add_all(hyper.fields());
}

Mhc::Mhc(const ResidualConfig& config, const MhcOptions& options)
    : HyperConnection(
          config, "mhc", options.hyper,
          has_no_mixer(options)
              ? InitialMap::identity
              : (options.off_diagonal <= -7 ? InitialMap::near_identity : InitialMap::other),
          has_no_mixer(options)),
      options_(options),
      sinkhorn_{.iterations = options.sinkhorn_iterations,
                .gradient = sinkhorn_gradient_from(options.sinkhorn_gradient),
                .order = sinkhorn_order_from(options.sinkhorn_order),
                .logit_bound = options.logit_bound} {
  traits_.reads_late = options.form == "v41";
  add_sigmoid_routes(config.index);
  if (!has_no_mixer(options))
    projection("res", options.off_diagonal * (1 - torch::eye(config.streams)));
}

RoutedSpec Mhc::spec() const {
  if (options_.form == "paper")
    return spec_with(has_no_mixer(options_) ? Routing(IdentityRouting())
                                            : Routing(SinkhornRouting{sinkhorn_}));
  auto v4 = spec_with(SoftmaxSinkhornRouting{options_.sinkhorn_iterations, options_.guard});
  v4.read_norm.kind = ReadNormSpec::Kind::rms;
  v4.read_norm.epsilon = norm_epsilon();
  v4.read_offset = options_.guard;
  v4.reads_late = options_.form == "v41";
  return v4;
}

std::shared_ptr<StreamHead> Mhc::make_head() const {
  if (options_.head == "sum") return nullptr;
  return std::make_shared<StreamHead>(streams(), stream_width(), norm_epsilon(), options_.guard);
}

Connection mhc_connection() {
  return describe_connection_by<MhcOptions, make_mhc>(
      {.name = "mhc",
       .summary = "hyper-connections, doubly stochastic mixer by Sinkhorn-Knopp",
       .paper = "mHC, arXiv:2512.24880 Eqs. 7-9; form = v4: DeepSeek-V4, v41: DeepSeek-V4.1",
       .variants = {nlohmann::json::object(),
                    {{"sinkhorn_gradient", "unrolled"}},
                    {{"mixer", "identity"}},
                    {{"form", "v4"}},
                    {{"form", "v41"}}},
       .silent_at_start = {"pre.scale", "post.scale", "res.scale"},
       .in_earlier_runs = {{"sinkhorn_order", "columns_last"},
                           {"logit_bound", 10.0},
                           {"norm_epsilon", 1e-6},
                           {"decay_static", true}},
       .has_token_step = [](const nlohmann::json& options, int64_t) {
         return option_or<std::string>(options, "form", "paper") == "paper";
       }});
}

}  // namespace geores
