#include "geores/spectral/mixer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "geores/base/refusal.h"
#include "geores/spectral/algebra/decompositions.h"
#include "geores/spectral/random.h"

namespace geores::spectral {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd gaussian(Eigen::Index rows, Eigen::Index columns, NormalNumbers& random) {
  MatrixXd result(rows, columns);
  for (double& entry : result.reshaped()) entry = random.next();
  return result;
}

// Haar measure on St(n, columns).
MatrixXd haar(int n, int columns, NormalNumbers& random) {
  return orthonormal_columns(gaussian(n, columns, random));
}

MatrixXd bistochastic(int n, NormalNumbers& random) {
  MatrixXd a = gaussian(n, n, random).array().exp();
  for (int turn = 0; turn < 10000; ++turn) {
    const VectorXd rows = a.rowwise().sum();
    if (turn > 0 && (rows.array() - 1).abs().maxCoeff() < 1e-15) break;
    a.array().colwise() /= rows.array();
    const VectorXd columns = a.colwise().sum();
    a.array().rowwise() /= columns.array().transpose();
  }
  return a;
}

MatrixXd cayley(int n, int steps, NormalNumbers& random) {
  const double alpha = 0.1;
  const MatrixXd h = gaussian(n, n, random);
  const MatrixXd w = h - h.transpose();
  const MatrixXd identity = MatrixXd::Identity(n, n);
  MatrixXd y = identity + alpha * w;
  for (int s = 0; s < steps; ++s) y = identity + alpha / 2 * product(w, identity + y);
  return y;
}

MatrixXd permutation_mixture(int n, NormalNumbers& random) {
  std::vector<std::vector<int>> permutations(6, std::vector<int>(n));
  for (auto& p : permutations) std::iota(p.begin(), p.end(), 0);
  std::swap(permutations[1][0], permutations[1][n > 1 ? 1 : 0]);
  std::swap(permutations[2][n > 2 ? 1 : 0], permutations[2][n > 2 ? 2 : 0]);
  for (int i = 0; i < n; ++i) {
    permutations[3][i] = (i + 1) % n;
    permutations[4][i] = (i + n - 1) % n;
  }
  for (int i = n - 1; i > 0; --i)
    std::swap(permutations[5][i], permutations[5][random.below(i + 1)]);
  const VectorXd weights = gaussian(6, 1, random).array().exp();
  MatrixXd result = MatrixXd::Zero(n, n);
  for (int k = 0; k < 6; ++k) {
    for (int i = 0; i < n; ++i) result(permutations[k][i], i) += weights[k] / weights.sum();
  }
  return result;
}

// An orthonormal basis of the complement of 1, as the columns of n x (n − 1).
MatrixXd helmert(int n) {
  MatrixXd basis = MatrixXd::Zero(n, n - 1);
  for (int k = 1; k < n; ++k) {
    const double scale = 1 / std::sqrt(k * (k + 1.0));
    basis.col(k - 1).head(k).setConstant(scale);
    basis(k, k - 1) = -k * scale;
  }
  return basis;
}

MatrixXd exact_cayley_of_tanh(int n, NormalNumbers& random) {
  const MatrixXd h = gaussian(n, n, random).array().tanh();
  const MatrixXd upper = h.triangularView<Eigen::StrictlyUpper>();
  const MatrixXd skew = upper - upper.transpose();
  const MatrixXd identity = MatrixXd::Identity(n, n);
  return solve(identity + skew, identity - skew);
}

MatrixXd spectral_sphere(int n, NormalNumbers& random) {
  const MatrixXd mean = MatrixXd::Constant(n, n, 1.0 / n);
  if (n == 1) return mean;
  const MatrixXd basis = helmert(n);
  const MatrixXd u = product(basis, exact_cayley_of_tanh(n - 1, random));
  const MatrixXd v = product(basis, exact_cayley_of_tanh(n - 1, random));
  const VectorXd sigma = gaussian(n - 1, 1, random).array().tanh();
  return mean + product(u * sigma.asDiagonal(), v.transpose());
}

}  // namespace

MatrixXd draw_mixer(Mixer kind, int streams, std::uint64_t seed, int layer, int cayley_steps) {
  refuse_unless(streams >= 1, "mixer", "streams must be >= 1, got {}", streams);
  NormalNumbers random(seed, static_cast<std::uint64_t>(layer));
  const auto n = streams;
  switch (kind) {
    case Mixer::identity:
      return MatrixXd::Identity(n, n);
    case Mixer::bistochastic:
      return bistochastic(n, random);
    case Mixer::orthogonal:
      return haar(n, n, random);
    case Mixer::cayley:
      return cayley(n, cayley_steps, random);
    case Mixer::grassmann: {
      const MatrixXd u = haar(n, std::max(1, n / 2), random);
      return product(u, u.transpose());
    }
    case Mixer::permutation:
      return permutation_mixture(n, random);
    case Mixer::shc:
      return spectral_sphere(n, random);
    case Mixer::gaussian:
      return gaussian(n, n, random) / std::sqrt(n);
  }
  refuse("mixer", "unknown mixer {}", static_cast<int>(kind));
}

}  // namespace geores::spectral
