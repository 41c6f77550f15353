#include "geores/spectral/monte_carlo.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "geores/base/refusal.h"
#include "geores/spectral/algebra/decompositions.h"
#include "geores/spectral/random.h"

namespace geores::spectral {
namespace {

// A ⊗ I_p + X, stream-major: row i p + α is component α of stream i.
void draw_layer(const Layer& layer, int block, NormalNumbers& random, Eigen::MatrixXd& y) {
  const auto n = layer.mixer.rows();
  const auto size = n * block;
  if (layer.branch) {
    Eigen::MatrixXd w(block, block);
    const double scale = std::sqrt(layer.sigma2 / block);
    for (double& entry : w.reshaped()) entry = scale * random.next();
    for (Eigen::Index i = 0; i < n; ++i) {
      for (Eigen::Index j = 0; j < n; ++j) {
        y.block(i * block, j * block, block, block) =
            layer.branch->spread[i] * layer.branch->gather[j] * w;
      }
    }
  } else {
    const double scale = std::sqrt(layer.sigma2 / static_cast<double>(size));
    for (double& entry : y.reshaped()) entry = scale * random.next();
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      y.block(i * block, j * block, block, block).diagonal().array() += layer.mixer(i, j);
    }
  }
}

// Decreasing. From JᵀJ where that keeps six digits of the smallest value, and where it does not
// from [0 Jᵀ; J 0], whose eigenvalues are ± the singular values. (A decomposition of J itself
// takes twenty seconds to compile.)
std::vector<double> singular_values_of(const Eigen::MatrixXd& jacobian) {
  Eigen::VectorXd values = symmetric_eigenvalues(product(jacobian.transpose(), jacobian));
  if (values[0] > 1e-10 * values[values.size() - 1]) {
    values = values.cwiseSqrt().reverse().eval();
  } else {
    const auto n = jacobian.rows();
    Eigen::MatrixXd both = Eigen::MatrixXd::Zero(2 * n, 2 * n);
    both.bottomLeftCorner(n, n) = jacobian;  // the solver reads the lower half
    values =
        symmetric_eigenvalues(both).tail(n).reverse().cwiseMax(0.0);  // rounding may leave −1e-18
  }
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<double> Sample::all() const {
  std::vector<double> pooled;
  for (const auto& values : singular_values) {
    pooled.insert(pooled.end(), values.begin(), values.end());
  }
  std::sort(pooled.begin(), pooled.end());
  return pooled;
}

double Sample::fraction_below(double s) const {
  const auto pooled = all();
  return static_cast<double>(std::lower_bound(pooled.begin(), pooled.end(), s) - pooled.begin()) /
         static_cast<double>(pooled.size());
}

double Sample::quantile(double q) const {
  const auto pooled = all();
  const auto index = static_cast<std::size_t>(q * static_cast<double>(pooled.size()));
  return pooled[std::min(index, pooled.size() - 1)];
}

double Sample::median_condition() const {
  std::vector<double> conditions;
  for (const auto& values : singular_values) conditions.push_back(values.front() / values.back());
  const auto middle = conditions.begin() + static_cast<std::ptrdiff_t>(conditions.size() / 2);
  std::nth_element(conditions.begin(), middle, conditions.end());
  return *middle;
}

Moments Sample::moments() const {
  Moments moments;
  const auto pooled = all();
  for (const double s : pooled) {
    moments.first += s * s / static_cast<double>(pooled.size());
    moments.second += s * s * s * s / static_cast<double>(pooled.size());
  }
  return moments;
}

Sample sample_singular_values(const Chain& chain, const MonteCarlo& how, const RunJobs& run) {
  check(chain);
  refuse_unless(how.samples >= 1, "monte_carlo", "samples must be >= 1, got {}", how.samples);
  refuse_unless(how.block >= 1, "monte_carlo", "block must be >= 1, got {}", how.block);
  refuse_unless(how.first >= 0, "monte_carlo", "the first sample must be >= 0, got {}", how.first);
  const auto size = chain.front().mixer.rows() * how.block;
  Sample sample;
  sample.singular_values.resize(how.samples);
  run(how.samples, [&](int i) {
    NormalNumbers random(how.seed, static_cast<std::uint64_t>(how.first) + i);
    Eigen::MatrixXd jacobian(size, size), y(size, size), next(size, size);
    draw_layer(chain.front(), how.block, random, jacobian);
    for (std::size_t l = 1; l < chain.size(); ++l) {
      draw_layer(chain[l], how.block, random, y);
      set_product(y, jacobian, next);
      jacobian.swap(next);
    }
    sample.singular_values[i] = singular_values_of(jacobian);
  });
  return sample;
}

Sample sample_from(std::vector<double> singular_values) {
  refuse_unless(!singular_values.empty(), "monte_carlo", "no singular values given");
  for (const double s : singular_values) {
    refuse_unless(std::isfinite(s) && s >= 0, "monte_carlo",
                  "a singular value must be finite and >= 0, got {}", s);
  }
  std::sort(singular_values.rbegin(), singular_values.rend());
  return {{std::move(singular_values)}};
}

ResolventFactory empirical_resolvent(const Sample& sample) {
  const auto pooled = std::make_shared<const std::vector<double>>(sample.all());
  return [pooled]() -> Resolvent {
    return [pooled](Complex w) {
      // w/(w² − s²) with plain real arithmetic: this sum runs over 50,000 values for every point.
      const double re = w.real() * w.real() - w.imag() * w.imag();
      const double im = 2 * w.real() * w.imag();
      double sum_re = 0, sum_im = 0;
      for (const double s : *pooled) {
        const double d = re - s * s;
        const double scale = 1 / (d * d + im * im);
        sum_re += d * scale;
        sum_im -= im * scale;
      }
      return w * Complex(sum_re, sum_im) / static_cast<double>(pooled->size());
    };
  };
}

}  // namespace geores::spectral
