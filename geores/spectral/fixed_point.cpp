#include "geores/spectral/fixed_point.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "geores/spectral/algebra/decompositions.h"

namespace geores::spectral {
namespace {

double relative_change(const Eigen::VectorXcd& from, const Eigen::VectorXcd& to) {
  double worst = 0;
  for (Eigen::Index i = 0; i < from.size(); ++i) {
    const double change = std::abs(to[i] - from[i]) / std::max(1.0, std::abs(from[i]));
    if (!(change <= worst)) worst = change;  // also keeps NaN
  }
  return worst;
}

bool inside(const Eigen::VectorXcd& x, Keep keep) {
  if (!x.allFinite()) return false;
  return keep == Keep::Anywhere || (x.imag().array() <= 0).all();
}

}  // namespace

FixedPoint solve_fixed_point(const Map& f, Eigen::VectorXcd& x, const Convergence& convergence,
                             Keep keep) {
  const Eigen::Index size = x.size();
  const int memory = convergence.memory;
  Eigen::VectorXcd y(size), residual(size), last_x(size), last_residual(size);
  Eigen::MatrixXcd steps(size, std::max(memory, 1)), changes(size, std::max(memory, 1));
  int held = 0, next = 0;
  double best = std::numeric_limits<double>::infinity();
  int best_at = 0;
  FixedPoint result;
  for (result.iterations = 1; result.iterations <= convergence.max_iterations;
       ++result.iterations) {
    f(x, y);
    residual = y - x;
    result.residual = relative_change(x, y);
    if (result.residual < best) {
      best = result.residual;
      best_at = result.iterations;
    }
    const bool stalled = result.iterations - best_at >= 40;
    if (result.residual <= (stalled ? convergence.rounding : convergence.tolerance)) {
      x = y;
      result.converged = true;
      return result;
    }
    if (!std::isfinite(result.residual)) return result;
    if (memory > 0 && result.iterations > 1) {
      steps.col(next) = x - last_x;
      changes.col(next) = residual - last_residual;
      next = (next + 1) % memory;
      held = std::min(held + 1, memory);
    }
    last_x = x;
    last_residual = residual;
    x += 0.5 * residual;
    if (held > 0) {
      // x + ½r − Σ γ (Δx + ½Δr), γ minimising |r − Σ γ Δr|.
      const auto recent = changes.leftCols(held);
      const Eigen::MatrixXcd gram = recent.adjoint().lazyProduct(recent);
      const Eigen::MatrixXcd ridge =
          gram + 1e-14 * gram.trace().real() * Eigen::MatrixXcd::Identity(held, held);
      const Eigen::VectorXcd gamma =
          solve_hermitian(ridge, recent.adjoint().lazyProduct(last_residual));
      Eigen::VectorXcd mixed = x;
      for (int k = 0; k < held; ++k) mixed -= gamma[k] * (steps.col(k) + 0.5 * recent.col(k));
      if (inside(mixed, keep)) {
        x = mixed;
      } else {
        held = next = 0;
      }
    }
  }
  result.iterations = convergence.max_iterations;
  return result;
}

}  // namespace geores::spectral
