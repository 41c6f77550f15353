// The gradient of a scalar function by central differences of fourth order,
//   f' ≈ [8 (f(x + h) − f(x − h)) − (f(x + 2h) − f(x − 2h))] / 12h,
// error O(h⁴) + O(ε/h). Test every hand-written backward pass with it, in double, and with a
// *random* cotangent: the sum of the entries of a doubly stochastic or projected matrix is
// constant, so a loss that is that sum hides errors.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

// ∂f()/∂parameter; f reads the parameter through a reference.
template <class Function>
double central_difference(double& parameter, const Function& f, double step) {
  const double centre = parameter;
  const auto value_at = [&](double x) {
    parameter = x;
    const double value = f();
    parameter = centre;
    return value;
  };
  const double near = value_at(centre + step) - value_at(centre - step);
  const double far = value_at(centre + 2 * step) - value_at(centre - 2 * step);
  return (8 * near - far) / (12 * step);
}

// max |expected − f'| / max |f'| over `count` parameters.
template <class Function>
double gradient_error(double* parameters, const double* expected, int count, const Function& f,
                      double step = 1e-3) {
  double error = 0, size = 0;
  for (int i = 0; i < count; ++i) {
    const double difference = central_difference(parameters[i], f, step);
    error = larger(error, absolute(expected[i] - difference));
    size = larger(size, absolute(difference));
  }
  return size == 0 ? error : error / size;
}

}  // namespace geores::manifold
