#include "geores/spectral/mixer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <random>

#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/base/printable.h"

namespace geores::spectral {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using Generator = std::mt19937_64;

MatrixXd gaussian(Eigen::Index rows, Eigen::Index columns, Generator& generator) {
  std::normal_distribution<double> normal;
  MatrixXd result(rows, columns);
  for (double& entry : result.reshaped()) entry = normal(generator);
  return result;
}

// Haar measure on St(n, columns): the signs make R's diagonal positive, which makes Q unique.
MatrixXd haar(int n, int columns, Generator& generator) {
  const Eigen::HouseholderQR<MatrixXd> qr(gaussian(n, columns, generator));
  const MatrixXd q = qr.householderQ() * MatrixXd::Identity(n, columns);
  const VectorXd signs =
      qr.matrixQR().diagonal().head(columns).unaryExpr([](double x) { return x < 0 ? -1.0 : 1.0; });
  return q * signs.asDiagonal();
}

MatrixXd bistochastic(int n, Generator& generator) {
  MatrixXd a = gaussian(n, n, generator).array().exp();
  for (int turn = 0; turn < 10000; ++turn) {
    const VectorXd rows = a.rowwise().sum();
    if (turn > 0 && (rows.array() - 1).abs().maxCoeff() < 1e-15) break;
    a.array().colwise() /= rows.array();
    const VectorXd columns = a.colwise().sum();
    a.array().rowwise() /= columns.array().transpose();
  }
  return a;
}

MatrixXd cayley(int n, int steps, Generator& generator) {
  const double alpha = 0.1;
  const MatrixXd h = gaussian(n, n, generator);
  const MatrixXd w = h - h.transpose();
  const MatrixXd identity = MatrixXd::Identity(n, n);
  MatrixXd y = identity + alpha * w;
  for (int s = 0; s < steps; ++s) y = (identity + alpha / 2 * w * (identity + y)).eval();
  return y;
}

MatrixXd permutation_mixture(int n, Generator& generator) {
  std::vector<std::vector<int>> permutations(6, std::vector<int>(n));
  for (auto& p : permutations) std::iota(p.begin(), p.end(), 0);
  std::swap(permutations[1][0], permutations[1][n > 1 ? 1 : 0]);
  std::swap(permutations[2][n > 2 ? 1 : 0], permutations[2][n > 2 ? 2 : 0]);
  for (int i = 0; i < n; ++i) {
    permutations[3][i] = (i + 1) % n;
    permutations[4][i] = (i + n - 1) % n;
  }
  std::shuffle(permutations[5].begin(), permutations[5].end(), generator);
  const VectorXd weights = gaussian(6, 1, generator).array().exp();
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

MatrixXd exact_cayley_of_tanh(int n, Generator& generator) {
  const MatrixXd h = gaussian(n, n, generator).array().tanh();
  const MatrixXd upper = h.triangularView<Eigen::StrictlyUpper>();
  const MatrixXd skew = upper - upper.transpose();
  const MatrixXd identity = MatrixXd::Identity(n, n);
  return (identity + skew).partialPivLu().solve(identity - skew);
}

MatrixXd spectral_sphere(int n, Generator& generator) {
  const MatrixXd mean = MatrixXd::Constant(n, n, 1.0 / n);
  if (n == 1) return mean;
  const MatrixXd basis = helmert(n);
  const MatrixXd u = basis * exact_cayley_of_tanh(n - 1, generator);
  const MatrixXd v = basis * exact_cayley_of_tanh(n - 1, generator);
  const VectorXd sigma = gaussian(n - 1, 1, generator).array().tanh();
  return mean + u * sigma.asDiagonal() * v.transpose();
}

int steps_after_colon(const std::string& name, std::size_t colon) {
  int steps = 0;
  const char* begin = name.data() + colon + 1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, steps);
  require(error == std::errc() && stop == end && steps >= 0 && steps <= 1000, "mixer",
          "cayley:s needs a number of steps 0 ... 1000, got {}", quote(name));
  return steps;
}

}  // namespace

const std::vector<MixerKind>& mixer_kinds() {
  static const std::vector<MixerKind> kinds = {
      {"identity", "the plain residual connection"},
      {"bistochastic", "Sinkhorn of Gaussian logits (mHC)"},
      {"orthogonal", "Haar orthogonal"},
      {"cayley", "iterated Cayley map; cayley:3 takes 3 steps (JPmHC)"},
      {"grassmann", "projector onto a random half space (JPmHC)"},
      {"permutation", "softmax mixture of 6 permutations (JPmHC)"},
      {"shc", "spectral sphere: row and column sums 1, norm 1 (sHC)"},
      {"gaussian", "i.i.d. N(0, 1/n), unconstrained"},
  };
  return kinds;
}

MatrixXd make_mixer(const std::string& name, int streams, std::uint64_t seed, int layer) {
  require(streams >= 1, "mixer", "streams must be >= 1, got {}", streams);
  std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(layer), 0x6d697865u};
  Generator generator(mixed);
  const auto n = streams;
  if (name == "identity") return MatrixXd::Identity(n, n);
  if (name == "bistochastic") return bistochastic(n, generator);
  if (name == "orthogonal") return haar(n, n, generator);
  if (name == "cayley") return cayley(n, 2, generator);
  if (name.starts_with("cayley:")) return cayley(n, steps_after_colon(name, 6), generator);
  if (name == "grassmann") {
    const MatrixXd u = haar(n, std::max(1, n / 2), generator);
    return u * u.transpose();
  }
  if (name == "permutation") return permutation_mixture(n, generator);
  if (name == "shc") return spectral_sphere(n, generator);
  if (name == "gaussian") return gaussian(n, n, generator) / std::sqrt(n);
  std::vector<std::string> known;
  for (const auto& kind : mixer_kinds()) known.emplace_back(kind.name);
  fail("mixer", "unknown mixer {}{}", quote(name), did_you_mean(name, known));
}

}  // namespace geores::spectral
