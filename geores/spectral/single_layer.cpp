#include "geores/spectral/single_layer.h"

#include <Eigen/Eigenvalues>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>

#include "geores/base/refusal.h"
#include "geores/spectral/algebra/decompositions.h"
#include "geores/spectral/layer.h"

namespace geores::spectral {
namespace {

Eigen::ArrayXd squared_singular_values(const Eigen::MatrixXd& mixer) {
  return symmetric_eigenvalues(product(mixer.transpose(), mixer)).array().max(0);
}

// S(h) = (1/n) Σ h / (h² − s_i²), and its derivative.
Complex skip_resolvent(const Eigen::ArrayXd& s2, Complex h) { return (h / (h * h - s2)).mean(); }
Complex skip_derivative(const Eigen::ArrayXd& s2, Complex h) {
  return -((h * h + s2) / (h * h - s2).square()).mean();
}

// Follows one solution (w₁, g₁ = a₁(w₁)) of the scalar route along a path of w.
class ScalarRoute {
 public:
  ScalarRoute(const Eigen::MatrixXd& mixer, double sigma2, int depth)
      : s2_(squared_singular_values(mixer)), sigma2_(sigma2), depth_(depth) {
    // Far away ψ = m₁/z₁ for one layer, so that z_L = z₁ m₁^{L−1}.
    const double m1 = s2_.mean() + sigma2;
    refuse_unless(m1 > 0, "spectral",
                  "the scalar route needs a mixer or a branch that is not zero");
    const double shrink = std::pow(m1, (depth - 1) / 2.0);
    const double far = 20 * std::sqrt(s2_.maxCoeff() + 4 * sigma2) * std::sqrt(depth);
    const Complex w1(0, far);
    at_ = {w1 * shrink, w1, skip_resolvent(s2_, w1 - sigma2 / w1)};
    refuse_unless(refine(at_), "spectral", "the scalar route found no start");
  }

  Complex solve(Complex w) {
    while (at_.w != w) {
      State next = at_;
      Complex target = w;
      for (int halvings = 0;; ++halvings) {
        next = at_;
        next.w = target;
        // Scale with w: exact where w is large, a good start for a short step elsewhere.
        next.w1 *= target / at_.w;
        next.g1 *= at_.w / target;
        if (refine(next) && close(next)) break;
        refuse_unless(halvings < 40, "spectral",
                      "the scalar route did not converge at w = {} + {}i", w.real(), w.imag());
        target = at_.w + (target - at_.w) * 0.5;
      }
      at_ = next;
    }
    return at_.w1 * at_.g1 / at_.w;
  }

 private:
  struct State {
    Complex w, w1, g1;
  };

  bool close(const State& next) const {
    return std::abs(next.w1 * next.g1 - at_.w1 * at_.g1) <
               0.3 * (0.1 + std::abs(at_.w1 * at_.g1)) &&
           (next.w1 * next.g1 / next.w).imag() < 0 && next.g1.imag() < 0 && next.w1.imag() > 0;
  }

  bool refine(State& state) const {
    auto& [w, w1, g1] = state;
    const double layers = depth_;
    for (int turn = 0; turn < 30; ++turn) {
      const Complex h = w1 - sigma2_ * g1;
      const Complex psi = w1 * g1 - 1.0;
      const Complex f1 = g1 - skip_resolvent(s2_, h);
      Complex f2 = 2 * layers * std::log(w1) +
                   (layers - 1) * (std::log(psi) - std::log(1.0 + psi)) - 2.0 * std::log(w);
      f2 -= Complex(0, 2 * std::numbers::pi * std::round(f2.imag() / (2 * std::numbers::pi)));
      if (!std::isfinite(std::abs(f1)) || !std::isfinite(std::abs(f2))) return false;
      const Complex slope = skip_derivative(s2_, h);
      const Complex f1_g = 1.0 + sigma2_ * slope, f1_w = -slope;
      const Complex bend = (layers - 1) / (psi * (1.0 + psi));
      const Complex f2_g = bend * w1, f2_w = 2 * layers / w1 + bend * g1;
      const Complex det = f1_g * f2_w - f1_w * f2_g;
      const Complex dg = (f1 * f2_w - f1_w * f2) / det, dw = (f1_g * f2 - f1 * f2_g) / det;
      g1 -= dg;
      w1 -= dw;
      if (std::abs(dg) < 1e-13 * std::abs(g1) && std::abs(dw) < 1e-13 * std::abs(w1)) return true;
      if (turn >= 12 && std::abs(dg) < 1e-10 * std::abs(g1)) return true;  // rounding
    }
    return false;
  }

  Eigen::ArrayXd s2_;
  double sigma2_;
  int depth_;
  State at_;
};

}  // namespace

Complex cubic(Complex z, Complex g, double a, double sigma2) {
  return ((sigma2 * sigma2 * z * g - 2 * sigma2 * z) * g + (z - a * a + sigma2)) * g - 1.0;
}

Complex cubic_cauchy_transform(Complex z, double a, double sigma2) {
  refuse_unless(z.imag() > 0, "spectral", "the cubic needs Im z > 0, got {}", z.imag());
  refuse_unless(std::isfinite(a) && std::isfinite(sigma2) && sigma2 >= 0, "spectral",
                "the cubic needs a finite skip and sigma2 >= 0, got {} and {}", a, sigma2);
  if (sigma2 == 0) return 1.0 / (z - a * a);
  // u = σ²G: u³ − 2u² + (1 − (a² − σ²)/z) u − σ²/z = 0, by the companion matrix.
  const std::array<Complex, 3> c{-sigma2 / z, 1.0 - (a * a - sigma2) / z, -2.0};
  Eigen::Matrix3cd companion;
  companion << 0, 0, -c[0], 1, 0, -c[1], 0, 1, -c[2];
  const Eigen::Vector3cd roots = companion.eigenvalues();
  const Complex w = std::sqrt(z);
  Complex best = 0;
  double lowest = 0;
  for (Complex u : roots) {
    for (int turn = 0; turn < 3; ++turn) {
      const Complex slope = (3.0 * u + 2.0 * c[2]) * u + c[1];
      if (std::abs(slope) > 1e-6) u -= (((u + c[2]) * u + c[1]) * u + c[0]) / slope;
    }
    if ((w * u).imag() < lowest) {
      lowest = (w * u).imag();
      best = u;
    }
  }
  refuse_unless(lowest < 0, "spectral",
                "the cubic has no Cauchy transform among its roots at z = {} + {}i", z.real(),
                z.imag());
  return best / sigma2;
}

ResolventFactory single_layer_resolvent(const Eigen::MatrixXd& mixer, double sigma2,
                                        const Convergence& convergence) {
  check({{mixer, sigma2, std::nullopt}});
  const Eigen::ArrayXd s2 = squared_singular_values(mixer);
  return [=]() -> Resolvent {
    auto g = std::make_shared<Eigen::VectorXcd>(Eigen::VectorXcd::Constant(1, {0, -1}));
    return [=](Complex w) {
      const auto closure = [&](const Eigen::VectorXcd& x, Eigen::VectorXcd& y) {
        y = Eigen::VectorXcd::Constant(1, skip_resolvent(s2, w - sigma2 * x[0]));
      };
      const auto done = solve_fixed_point(closure, *g, convergence);
      refuse_unless(done.converged, "spectral",
                    "the single-layer equation did not converge at s = {}, eta = {}", w.real(),
                    w.imag());
      return (*g)[0];
    };
  };
}

ResolventFactory scalar_route_resolvent(const Eigen::MatrixXd& mixer, double sigma2, int depth) {
  check({{mixer, sigma2, std::nullopt}});
  refuse_unless(depth >= 1, "spectral", "depth must be >= 1, got {}", depth);
  return [=]() -> Resolvent {
    auto route = std::make_shared<ScalarRoute>(mixer, sigma2, depth);
    return [route](Complex w) { return route->solve(w); };
  };
}

}  // namespace geores::spectral
