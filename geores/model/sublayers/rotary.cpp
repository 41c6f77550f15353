#include "geores/model/sublayers/rotary.h"

#include "geores/base/error.h"

namespace geores {

Tensor rotate_by_position(const Tensor& x, int64_t first) {
  constexpr double base = 10000;
  const auto length = x.size(-2), width = x.size(-1), half = width / 2;
  require(width % 2 == 0, "rotary", "the width must be even, got {}", width);
  const auto exact = x.options().dtype(torch::kFloat64).requires_grad(false);
  const auto positions = torch::arange(first, first + length, exact);
  const auto frequencies =
      torch::pow(base, torch::arange(half, exact) * (-2.0 / static_cast<double>(width)));
  const auto angles = torch::outer(positions, frequencies);  // (T, d/2)
  const auto cosine = angles.cos().to(x.scalar_type()), sine = angles.sin().to(x.scalar_type());
  const auto a = x.slice(-1, 0, half), b = x.slice(-1, half);
  return torch::cat({a * cosine - b * sine, b * cosine + a * sine}, -1);
}

}  // namespace geores
