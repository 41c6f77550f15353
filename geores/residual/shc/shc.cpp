#include "geores/residual/shc/shc.h"

#include "geores/base/error.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/sphere.h"

namespace geores {
namespace {

const ResidualConfig& require_two_streams(const ResidualConfig& config) {
  require(config.streams >= 2, "shc", "streams must be >= 2, got {}", config.streams);
  return config;
}

Tensor upper_triangle_to_skew(int64_t m) {
  auto basis = torch::zeros({m * (m - 1) / 2, m, m}, torch::kFloat64);
  int64_t entry = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = i + 1; j < m; ++j, ++entry) {
      basis[entry][i][j] = 1.0;
      basis[entry][j][i] = -1.0;
    }
  return basis.flatten(1);
}

}  // namespace

Fields ShcOptions::fields() {
  return Fields()
      .add("fixed_amplitude", fixed_amplitude, "γ = 1, as in sHC's App. G; false: learned")
      .choice("read_norm", read_norm, {"layer", "none"}, "norm of the sublayer's input")
      .add_all(hyper.fields());
}

Shc::Shc(const ResidualConfig& config, const ShcOptions& options)
    : SigmoidHyperConnection(require_two_streams(config), "shc", options.hyper,
                             InitialMap::near_identity, /*orthogonal=*/false,
                             options.read_norm == "layer") {
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

Tensor Shc::rotated_basis(const Tensor& entries) const {
  const auto m = streams() - 1;
  const auto skewed =
      entries.matmul(skew_basis_.to(entries.dtype())).unflatten(-1, std::vector<int64_t>{m, m});
  return helmert_.to(entries.dtype()).matmul(cayley_solve(skewed));
}

Tensor Shc::mixing(const std::vector<Tensor>& projected, const Tensor&) {
  const auto singular = torch::tanh(projected.back());  // (B, T, n−1)
  const auto n = streams();
  auto left = helmert_.to(singular.dtype()), right = left;
  if (skew_basis_.defined()) {  // n = 2 has no skew entries
    const auto scaled = [](const Tensor& amplitude, const Tensor& entries) {
      return amplitude.defined() ? amplitude * entries : entries;
    };
    const auto left_entries = scaled(left_amplitude_, torch::tanh(projected[0]));
    const auto right_entries = scaled(right_amplitude_, torch::tanh(projected[1]));
    if (const auto fused = fused_spectral_sphere(left_entries, right_entries, singular))
      return *fused;
    left = rotated_basis(left_entries);
    right = rotated_basis(right_entries);
  }
  const auto mean = torch::full({n, n}, 1.0 / static_cast<double>(n), singular.options());
  return mean + (left * singular.unsqueeze(-2)).matmul(right.transpose(-1, -2));
}

std::optional<Routing> Shc::routing() const {
  if (left_amplitude_.defined()) return std::nullopt;
  return SphereRouting();
}

Connection shc_connection() {
  return describe_connection<Shc, ShcOptions>(
      {.name = "shc",
       .summary = "hyper-connections on the spectral sphere: row and column sums 1, norm 1",
       .paper = "sHC, arXiv:2603.20896 Eqs. 6-9",
       .variants = {nlohmann::json::object(), {{"fixed_amplitude", false}}},
       .silent_at_start = {"pre.scale", "post.scale", "left.scale", "right.scale", "singular.scale",
                           "left_amplitude", "right_amplitude"},
       .in_earlier_runs = {{"fixed_amplitude", false}, {"norm_epsilon", 1e-6}}});
}

}  // namespace geores
