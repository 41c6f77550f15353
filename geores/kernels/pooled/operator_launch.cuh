// One thread for each operator on 2, 3 or 4 streams: how the kernels of this folder are launched.
#pragma once

#include <cstdint>
#include <type_traits>

namespace geores::kernels {

inline constexpr int kOperatorsPerBlock = 64;

// f(n as a constant, blocks); nothing where there is no operator.
template <class F>
void with_operators(int64_t operators, int64_t n, F&& f) {
  const auto blocks =
      static_cast<unsigned>((operators + kOperatorsPerBlock - 1) / kOperatorsPerBlock);
  if (blocks == 0) return;
  if (n == 2)
    f(std::integral_constant<int, 2>(), blocks);
  else if (n == 3)
    f(std::integral_constant<int, 3>(), blocks);
  else
    f(std::integral_constant<int, 4>(), blocks);
}

}  // namespace geores::kernels
