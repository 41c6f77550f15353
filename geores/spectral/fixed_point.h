// Solves x = F(x) for a map F that sends the lower half-plane (every component) into itself, which
// holds for a matrix Dyson equation: there the solution is unique and the damped iteration x ←
// ½x + ½F(x) finds it from anywhere (Helton, Rashidi Far, Speicher 2007). Anderson mixing over the
// last few steps makes it about five times shorter; a mixed step that would leave the half-plane is
// replaced by the damped one, so that the branch cannot change.
#pragma once

#include <Eigen/Core>
#include <functional>

namespace geores::spectral {

struct Convergence {
  double tolerance = 1e-11;   // max |F(x) − x| / max(1, |x|)
  double rounding = 1e-7;     // accepted too, once 40 evaluations in a row bring no better residual
  int max_iterations = 5000;  // evaluations of F
  int memory = 8;             // steps that Anderson mixing sees; 0: damped iteration only
};

struct FixedPoint {
  int iterations = 0;
  double residual = 0;
  bool converged = false;
};

enum class Keep { LowerHalfPlane, Anywhere };

// x: start in, solution out. F(x, y) writes y = F(x).
using Map = std::function<void(const Eigen::VectorXcd& x, Eigen::VectorXcd& y)>;
FixedPoint solve_fixed_point(const Map& f, Eigen::VectorXcd& x, const Convergence& convergence,
                             Keep keep = Keep::LowerHalfPlane);

}  // namespace geores::spectral
