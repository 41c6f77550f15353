// The largest number of iterations that an option may request. Kernels count in int, and the fixed
// points converge long before.
#pragma once

namespace geores {

inline constexpr double kMostIterations = 100000;

}  // namespace geores
