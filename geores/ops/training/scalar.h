// Tensors of one number.
#pragma once

#include <cmath>
#include <limits>

#include "geores/ops/torch.h"

namespace geores {

// A number that was computed in double, as a tensor of the type that the tensors around it have.
// A value beyond the type's range becomes infinite, as in every other operation; torch::full would
// throw.
template <class T>
torch::Tensor scalar_of(double value, const torch::TensorOptions& options) {
  constexpr double largest = std::numeric_limits<T>::max();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value > largest) value = infinity;
  if (value < -largest) value = -infinity;
  return torch::full({}, value, options);
}

// False on a GPU, too: there the number is not known without waiting for it.
inline bool is_known_not_finite(const torch::Tensor& number) {
  return number.is_cpu() && !std::isfinite(number.item<double>());
}

}  // namespace geores
