// A number that was computed in double, as a tensor of the type that the tensors around it have.
#pragma once

#include <limits>

#include "geores/ops/torch.h"

namespace geores {

// A value beyond the type's range becomes infinite, as in every other operation; torch::full would
// refuse it.
template <class T>
torch::Tensor scalar_of(double value, const torch::TensorOptions& options) {
  constexpr double largest = std::numeric_limits<T>::max();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value > largest) value = infinity;
  if (value < -largest) value = -infinity;
  return torch::full({}, value, options);
}

}  // namespace geores
