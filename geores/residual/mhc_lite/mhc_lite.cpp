#include "geores/residual/mhc_lite/mhc_lite.h"

#include "geores/base/error.h"
#include "geores/ops/mixers/constants.h"

namespace geores {
namespace {

int64_t factorial(int64_t n) { return n <= 1 ? 1 : n * factorial(n - 1); }

const ResidualConfig& require_few_streams(const ResidualConfig& config) {
  const auto n = config.streams;
  if (n > 6 && n <= 20)
    fail("mhc_lite", "streams must be at most 6: {} streams of width {} need {} weights per mixer",
         n, config.width,
         static_cast<double>(n * config.width) * static_cast<double>(factorial(n)));
  require(n <= 6, "mhc_lite", "streams must be at most 6, got {} (n! permutations)", n);
  return config;
}

// At the start ‖R − I‖₂ ≤ 2 · (the weight of all permutations but the identity).
InitialMap initial_map(int64_t n) { return n <= 4 ? InitialMap::near_identity : InitialMap::other; }

}  // namespace

MhcLite::MhcLite(const ResidualConfig& config, const HyperOptions& options)
    : HyperConnection(require_few_streams(config), "mhc_lite", options,
                      initial_map(config.streams)) {
  add_sigmoid_routes(config.index);
  const auto count = factorial(config.streams);
  auto bias = torch::full({count}, -8.0);
  bias[0] = 0.0;
  projection("res", bias);
  permutations_ = register_buffer("permutations",
                                  all_permutations(config.streams).flatten(1).to(torch::kFloat32));
}

Connection mhc_lite_connection() {
  return describe_connection<MhcLite, HyperOptions>(
      {.name = "mhc_lite",
       .summary = "hyper-connections, mixture of all n! permutations (n <= 6)",
       .paper = "mHC-lite; arXiv:2603.20896 Eq. 4",
       .silent_at_start = {"pre.scale", "post.scale", "res.scale"},
       .in_earlier_runs = {{"norm_epsilon", 1e-6}},
       .has_token_step = always});
}

}  // namespace geores
