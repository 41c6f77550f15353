#include "geores/residual/jpmhc/expanded.h"

#include "geores/base/error.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/isometry.h"
#include "geores/ops/mixers/permutations.h"
#include "geores/ops/mixers/quaternions.h"

namespace geores {
namespace {

bool is_orthogonal(const std::string& mixer) {
  return mixer == "cayley_exact" || mixer == "reflections" || mixer == "quaternions";
}

InitialMap initial_map_of(const std::string& mixer) {
  if (is_orthogonal(mixer) || mixer == "cayley") return InitialMap::identity;
  return mixer == "permutation" ? InitialMap::near_identity : InitialMap::other;
}

const ResidualConfig& checked(const ResidualConfig& config, const JpmhcOptions& options) {
  const auto& mixer = options.mixer;
  const auto n = config.streams;
  require(!mixer.starts_with("sinkhorn") && mixer != "identity", "jpmhc",
          "mixer {} has no layout expand: connection mhc has sinkhorn and identity there", mixer);
  require(mixer != "quaternions" || n == 4, "jpmhc", "mixer quaternions needs 4 streams, got {}",
          n);
  require(n >= 2 || (mixer != "reflections" && mixer != "grassmann"), "jpmhc",
          "mixer {} needs at least 2 streams, got {}", mixer, n);
  return config;
}

// (I − αW/2)⁻¹(I + αW/2) of skew matrices W (..., n, n).
Tensor cayley_exact(const Tensor& w, double alpha) {
  const auto n = w.size(-1);
  if (n == 1) return torch::ones_like(w);
  const auto at = torch::triu_indices(n, n, 1, w.options().dtype(torch::kLong));
  const auto upper = w.flatten(-2).index_select(-1, at[0] * n + at[1]);
  return isometry(-alpha * upper, IsometryFactor::cayley, n);
}

}  // namespace

ExpandedJpmhc::ExpandedJpmhc(const ResidualConfig& config, const JpmhcOptions& options)
    : HyperConnection(checked(config, options), "jpmhc", HyperOptions(),
                      initial_map_of(options.mixer), is_orthogonal(options.mixer),
                      options.read_norm == "layer"),
      options_(options) {
  add_sigmoid_routes(config.index);
  res_ = projection("res", start());
  if (options.mixer == "permutation")
    permutations_ = register_buffer("permutations", flat_permutations(streams(), options));
  if (options.mixer == "grassmann") subspace_.emplace(*this, res_->bias(), options.grassmann_step);
}

Tensor ExpandedJpmhc::start() const {
  const auto n = streams();
  const auto& mixer = options_.mixer;
  if (mixer == "reflections") {  // both directions of a factor are the same at first
    const auto k = torch::randn({n / 2, 1, n});
    return (k / k.norm(2, {-1}, /*keepdim=*/true)).repeat({1, 2, 1}).flatten();
  }
  if (mixer == "quaternions") return torch::eye(1, 4).repeat({2, 1});
  if (mixer == "grassmann") return random_subspace(n);
  if (mixer == "permutation") return permutation_start();
  return torch::zeros({n, n});
}

Tensor ExpandedJpmhc::mixed(const Tensor& z) const {
  const auto n = streams();
  const auto& mixer = options_.mixer;
  if (mixer == "cayley")
    return cayley_iterative(skew(z), options_.cayley_alpha, options_.cayley_iterations);
  if (mixer == "cayley_exact") return cayley_exact(skew(z), options_.cayley_alpha);
  if (mixer == "reflections") return isometry(z, IsometryFactor::reflections, n);
  if (mixer == "quaternions") return quaternion_rotation(z.select(-2, 0), z.select(-2, 1));
  if (mixer == "grassmann") return projector_onto(z);
  return permutation_mixture(z, permutations_);
}

std::vector<Tensor> ExpandedJpmhc::manifold_parameters() const {
  return subspace_ ? std::vector<Tensor>{res_->bias()} : std::vector<Tensor>{};
}

void ExpandedJpmhc::manifold_step() {
  if (subspace_) subspace_->step(res_->bias());
}

}  // namespace geores
