// LibTorch draws initial weights from one generator for all threads: drawing
// the same weights from the same seed requires exclusive use of it.
//   auto model = with_seed(42, [&] { return std::make_shared<Transformer>(config); });
#pragma once

#include <cstdint>
#include <mutex>

#include "geores/ops/torch.h"

namespace geores {

inline std::mutex& generator_mutex() {
  static std::mutex mutex;
  return mutex;
}

template <class Make>
auto with_seed(int64_t seed, Make&& make) {
  const std::lock_guard lock(generator_mutex());
  torch::manual_seed(static_cast<uint64_t>(seed));
  return make();
}

}  // namespace geores
