// From a resolvent a(w) (see resolvent.h) to numbers and curves:
//   ρ_η(s) = −(2/π) Im a(s + iη)          density of the singular values on s >= 0, blurred by a
//                                         Cauchy kernel of half-width η (and its mirror at −s)
//   P(s <= c) = −(1/π) Im ∫ a dw          over the half circle from −c to c: no η, and no trouble
//                                         with a density that is singular at zero
//   E s^{2k} = (1/2πi) ∮ w^{2k} a(w) dw   over a circle around the support
#pragma once

#include <vector>

#include "geores/spectral/layer.h"
#include "geores/spectral/resolvent.h"

namespace geores::spectral {

struct Curve {
  std::vector<double> s;    // increasing
  std::vector<double> rho;  // density there
};

std::vector<double> uniform_grid(double from, double to, int points);

// From 0 to a little beyond `edge`, fine enough for curves of blur eta: steps of eta/2, or of s/400
// where that is more.
std::vector<double> spectrum_grid(double edge, double eta);

// Stieltjes inversion on a grid. Each piece of 32 points is a job that walks from large s to small
// with the last solution as the start of the next. A resolvent's geores::Error is passed on.
Curve invert(const ResolventFactory& make, const std::vector<double>& grid, double eta,
             const RunJobs& run = one_by_one);

// By the trapezoid rule on the curve's own grid.
double mass(const Curve& curve);
double mass_below(const Curve& curve, double s);

// ∫ |ρ₁ − ρ₂| ds on their common grid (throws when the grids differ). At most 2 for two densities.
double l1_distance(const Curve& first, const Curve& second);

// P(singular value <= s) without blur, to about 1e-5: 23 evaluations.
double probability_below(const Resolvent& resolvent, double s);

// The s with P(singular value <= s) = q, 0 < q < 1, to 1e-4 of itself; 0 means any value below
// 1e-4, where deep contracting chains run out of digits.
double quantile(const Resolvent& resolvent, double q);

// E s² and E s⁴ by the contour |w| = radius, which must enclose the support. Exponentially exact in
// `points`.
Moments contour_moments(const Resolvent& resolvent, double radius, int points = 64);

// The edge of the singular values: the s above which there are less than 1e-5 of them, to 0.2 %
// (2 % with a point mass at the edge).
double support_edge(const Resolvent& resolvent);

}  // namespace geores::spectral
