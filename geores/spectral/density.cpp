#include "geores/spectral/density.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "geores/base/refusal.h"

namespace geores::spectral {
namespace {

constexpr double pi = std::numbers::pi;
constexpr int piece_size = 32;

}  // namespace

std::vector<double> uniform_grid(double from, double to, int points) {
  refuse_unless(points >= 2, "spectral", "a grid needs at least 2 points, got {}", points);
  refuse_unless(std::isfinite(from) && std::isfinite(to) && from < to, "spectral",
                "a grid needs from < to, got {} and {}", from, to);
  std::vector<double> grid(points);
  for (int i = 0; i < points; ++i) grid[i] = from + (to - from) * i / (points - 1);
  return grid;
}

std::vector<double> spectrum_grid(double edge, double eta) {
  refuse_unless(std::isfinite(edge) && edge > 0, "spectral", "the edge must be > 0, got {}", edge);
  refuse_unless(std::isfinite(eta) && eta > 0, "spectral", "eta must be finite and > 0, got {}",
                eta);
  const double end = 1.1 * edge + 5 * eta;
  std::vector<double> grid{0};
  while (grid.back() < end) grid.push_back(grid.back() + std::max(eta / 2, grid.back() / 400));
  return grid;
}

Curve invert(const ResolventFactory& make, const std::vector<double>& grid, double eta,
             const RunJobs& run) {
  refuse_unless(std::isfinite(eta) && eta > 0, "spectral", "eta must be finite and > 0, got {}",
                eta);
  refuse_unless(std::is_sorted(grid.begin(), grid.end()), "spectral",
                "the grid must be increasing");
  Curve curve{grid, std::vector<double>(grid.size())};
  const int pieces = static_cast<int>((grid.size() + piece_size - 1) / piece_size);
  run(pieces, [&](int piece) {
    const std::size_t begin = static_cast<std::size_t>(piece) * piece_size;
    const std::size_t end = std::min(begin + piece_size, grid.size());
    const Resolvent resolvent = make();
    for (std::size_t i = end; i-- > begin;) {
      curve.rho[i] = -2 / pi * resolvent({grid[i], eta}).imag();
    }
  });
  return curve;
}

double mass_below(const Curve& curve, double s) {
  double total = 0;
  for (std::size_t i = 1; i < curve.s.size() && curve.s[i - 1] < s; ++i) {
    const double left = curve.s[i - 1];
    const double right = std::min(s, curve.s[i]);
    const double slope = (curve.rho[i] - curve.rho[i - 1]) / (curve.s[i] - left);
    total += (right - left) * (curve.rho[i - 1] + slope * (right - left) / 2);
  }
  return total;
}

double mass(const Curve& curve) { return mass_below(curve, curve.s.back()); }

double l1_distance(const Curve& first, const Curve& second) {
  refuse_unless(first.s == second.s, "spectral",
                "the L1 distance needs two curves on the same grid");
  Curve difference{first.s, first.rho};
  for (std::size_t i = 0; i < first.rho.size(); ++i) {
    difference.rho[i] = std::abs(first.rho[i] - second.rho[i]);
  }
  return mass(difference);
}

double probability_below(const Resolvent& resolvent, double s) {
  refuse_unless(std::isfinite(s) && s > 0, "spectral", "a probability needs a finite s > 0, got {}",
                s);
  // tanh-sinh on the half circle: θ = π / (1 + exp(2u)), u = (π/2) sinh t; t > 0 is the right
  // quarter, the left one mirrors it. It ends at an angle of 1e-6, where the rest weighs nothing.
  const double step = 0.1;
  double integral = 0;
  for (int k = 0; k <= 22; ++k) {
    const double u = pi / 2 * std::sinh(step * k);
    const double theta = pi / (1 + std::exp(2 * u));
    const double weight = pi * pi / 4 * std::cosh(step * k) / std::pow(std::cosh(u), 2) * step;
    const Complex w = std::polar(s, theta);
    integral += (k == 0 ? 0.5 : 1.0) * weight * (resolvent(w) * w).real();  // Im(a i w) dθ
  }
  return 2 / pi * integral;
}

double quantile(const Resolvent& resolvent, double q) {
  refuse_unless(q > 0 && q < 1, "spectral", "a quantile needs 0 < q < 1, got {}", q);
  double hi = 1, at_hi = probability_below(resolvent, hi);
  while (at_hi < q) at_hi = probability_below(resolvent, hi *= 2);
  double lo = hi / 2, at_lo = probability_below(resolvent, lo);
  while (at_lo >= q) {
    if (lo < 1e-4) return 0;
    hi = lo, at_hi = at_lo;
    at_lo = probability_below(resolvent, lo /= 2);
  }
  for (int turn = 0; turn < 60 && hi - lo > 1e-4 * hi; ++turn) {
    // Regula falsi when it cuts well, bisection on every third turn.
    double share = (q - at_lo) / (at_hi - at_lo);
    if (turn % 3 == 2 || !(share > 0.02 && share < 0.98)) share = 0.5;
    const double middle = lo + (hi - lo) * share;
    const double at_middle = probability_below(resolvent, middle);
    (at_middle < q ? lo : hi) = middle;
    (at_middle < q ? at_lo : at_hi) = at_middle;
  }
  return (lo + hi) / 2;
}

Moments contour_moments(const Resolvent& resolvent, double radius, int points) {
  refuse_unless(std::isfinite(radius) && radius > 0, "spectral",
                "the contour's radius must be finite and > 0, got {}", radius);
  // a(−w̄) = −conj a(w): the quarter circle is enough, and the sum is real.
  Moments moments;
  for (int k = 0; k < points; ++k) {
    const double theta = (k + 0.5) * pi / (2 * points);
    const Complex w = std::polar(radius, theta);
    const Complex wa = w * resolvent(w);
    moments.first += (w * w * wa).real() / points;
    moments.second += (w * w * w * w * wa).real() / points;
  }
  return moments;
}

double support_edge(const Resolvent& resolvent) {
  const auto covers = [&](double s) { return probability_below(resolvent, s) > 1 - 1e-5; };
  double edge = 1;
  while (!covers(edge)) edge *= 2;
  while (edge > 1e-9 && covers(edge / 2)) edge /= 2;
  for (double factor = std::sqrt(0.5); factor < 0.999; factor = std::sqrt(factor)) {
    if (covers(edge * factor)) edge *= factor;
  }
  return edge;
}

}  // namespace geores::spectral
