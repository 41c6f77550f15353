// From a number of residual streams known at run time to the compile-time sizes of manifold/.
#pragma once

#include <cstdint>
#include <utility>

namespace geores::kernels {

// The sizes that are compiled, for float and double. Operations on other sizes run composed.
using CompiledSizes = std::integer_sequence<int, 2, 3, 4, 8, 16>;

constexpr bool is_compiled_size(int64_t n) {
  return [&]<int... N>(std::integer_sequence<int, N...>) { return ((n == N) || ...); }
  (CompiledSizes());
}

// f(std::integral_constant<int, n>()) if n is a compiled size; otherwise nothing.
template <class F>
void with_size(int64_t n, F&& f) {
  [&]<int... N>(std::integer_sequence<int, N...>) {
    ((n == N && (f(std::integral_constant<int, N>()), true)) || ...);
  }
  (CompiledSizes());
}

}  // namespace geores::kernels
