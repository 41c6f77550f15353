#include "geores/residual/shc/shc.h"

#include "geores/base/error.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/sphere.h"

namespace geores {
namespace {

const ResidualConfig& require_two_streams(const ResidualConfig& config) {
  require(config.streams >= 2, "shc", "streams must be >= 2, got {}", config.streams);
  return config;
}

}  // namespace

Fields ShcOptions::fields() {
  return Fields()
      .add("fixed_amplitude", fixed_amplitude, "γ = 1, as in sHC's App. G; false: learned")
      .choice("read_norm", read_norm, {"layer", "none"}, "norm of the sublayer's input")
      .add_all(hyper.fields());
}

Shc::Shc(const ResidualConfig& config, const ShcOptions& options)
    : HyperConnection(require_two_streams(config), "shc", options.hyper, InitialMap::near_identity,
                      /*orthogonal=*/false, options.read_norm == "layer") {
  add_sigmoid_routes(config.index);
  const auto m = config.streams - 1;
  const auto entries = m * (m - 1) / 2;
  if (entries > 0) {
    projection("left", torch::zeros({entries}));
    projection("right", torch::zeros({entries}));
    if (!options.fixed_amplitude) {
      left_amplitude_ = register_parameter("left_amplitude", torch::ones({1}));
      right_amplitude_ = register_parameter("right_amplitude", torch::ones({1}));
    }
    // Stored in double, so that a double model has the full precision of the basis.
    skew_basis_ = register_buffer("skew_basis", upper_triangle_to_skew(m));
  }
  projection("singular", torch::full({m}, 4.0));
  helmert_ = register_buffer("helmert", helmert_basis(config.streams));
}

Connection shc_connection() {
  return describe_connection<Shc, ShcOptions>(
      {.name = "shc",
       .summary = "hyper-connections on the spectral sphere: row and column sums 1, norm 1",
       .paper = "sHC, arXiv:2603.20896 Eqs. 6-9",
       .variants = {nlohmann::json::object(), {{"fixed_amplitude", false}}},
       .silent_at_start = {"pre.scale", "post.scale", "left.scale", "right.scale", "singular.scale",
                           "left_amplitude", "right_amplitude"},
       .in_earlier_runs = {{"fixed_amplitude", false}, {"norm_epsilon", 1e-6}},
       .has_token_step = [](const nlohmann::json& options, int64_t streams) {
         return streams >= 3 && option_or(options, "fixed_amplitude", true);
       }});
}

}  // namespace geores
