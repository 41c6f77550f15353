// One thread for each operator on 2, 3 or 4 streams: how the kernels of this folder are launched.
#pragma once

#include <cstdint>

#include "geores/kernels/sizes.h"

namespace geores::kernels {

inline constexpr int kOperatorsPerBlock = 64;

// f(n as a constant, blocks); nothing where there is no operator.
template <class F>
void with_operators(int64_t operators, int64_t n, F&& f) {
  const auto blocks =
      static_cast<unsigned>((operators + kOperatorsPerBlock - 1) / kOperatorsPerBlock);
  if (blocks == 0) return;
  with_count(DeviceMixers(), n, [&](auto size) { f(size, blocks); });
}

}  // namespace geores::kernels
