#include "geores/residual/mhc/mhc.h"

#include "geores/base/error.h"
#include "geores/modules/stream_head.h"
#include "geores/ops/streams/streams.h"
#include "geores/residual/iterations.h"

namespace geores {
namespace {

constexpr double kV4NormEpsilon = 1e-6;  // of the published configuration

bool has_no_mixer(const MhcOptions& options) { return options.mixer == "identity"; }

std::shared_ptr<Residual> make_mhc(const ResidualConfig& config, const MhcOptions& options) {
  if (options.form == "paper") return std::make_shared<Mhc>(config, options);
  require(!has_no_mixer(options), "mhc", "mixer = identity is an option of form = paper");
  auto v4 = options;
  if (v4.hyper.norm_epsilon == 0) v4.hyper.norm_epsilon = kV4NormEpsilon;
  return std::make_shared<MhcV4>(config, v4);
}

}  // namespace

Fields MhcOptions::fields() {
  return Fields()
      .choice("form", form, {"paper", "v4"}, "as published, or as DeepSeek-V4 ships it")
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
      .add("guard", guard, "ε of form = v4 and of head = learned", {.min = 0})
      .choice("head", head, {"sum", "learned"}, "how the streams are combined after the last block")
      .add_all(hyper.fields());
}

Mhc::Mhc(const ResidualConfig& config, const MhcOptions& options)
    : SigmoidHyperConnection(
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
  if (!has_no_mixer(options))
    projection("res", options.off_diagonal * (1 - torch::eye(config.streams)));
}

Tensor Mhc::mixing(const std::vector<Tensor>& projected, const Tensor& like) {
  if (projected.empty()) {
    const auto n = streams();
    return torch::eye(n, like.options()).expand({like.size(0), like.size(1), n, n});
  }
  return sinkhorn(projected[0], sinkhorn_);
}

std::optional<Routing> Mhc::routing() const {
  if (options_.form != "paper") return std::nullopt;
  if (has_no_mixer(options_)) return IdentityRouting();
  return SinkhornRouting{sinkhorn_};
}

std::shared_ptr<StreamHead> Mhc::make_head() const {
  if (options_.head == "sum") return nullptr;
  return std::make_shared<StreamHead>(streams(), width(), norm_epsilon(), options_.guard);
}

Tensor MhcV4::mixing(const std::vector<Tensor>& projected, const Tensor&) {
  return softmax_sinkhorn(projected[0], options().sinkhorn_iterations, options().guard);
}

ReadNormSpec MhcV4::read_norm() const {
  return {.kind = ReadNormSpec::Kind::rms, .weight = norm_weight(), .epsilon = norm_epsilon()};
}

Connection mhc_connection() {
  return describe_connection_by<MhcOptions, make_mhc>(
      {.name = "mhc",
       .summary = "hyper-connections, doubly stochastic mixer by Sinkhorn-Knopp",
       .paper = "mHC, arXiv:2512.24880 Eqs. 7-9; form = v4: DeepSeek-V4",
       .variants = {nlohmann::json::object(),
                    {{"sinkhorn_gradient", "unrolled"}},
                    {{"mixer", "identity"}},
                    {{"form", "v4"}}},
       .silent_at_start = {"pre.scale", "post.scale", "res.scale"},
       .in_earlier_runs = {{"sinkhorn_order", "columns_last"},
                           {"logit_bound", 10.0},
                           {"norm_epsilon", 1e-6},
                           {"decay_static", true}}});
}

}  // namespace geores
