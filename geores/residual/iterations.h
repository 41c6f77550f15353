// The most iterations that an option of a connection may ask for. Kernels count in int, and fixed
// points here are reached long before.
#pragma once

namespace geores {

inline constexpr double kMostIterations = 100000;

}  // namespace geores
