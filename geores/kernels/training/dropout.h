// Dropout by a mask that is computed where it is used: ops/training/dropout.h.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// SplitMix64 (Steele, Lea and Flood, 2014): a word for each number.
struct SplitMix {
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15, kFirst = 0xBF58476D1CE4E5B9,
                            kSecond = 0x94D049BB133111EB;

  static constexpr uint64_t word(uint64_t key, uint64_t number) {
    auto z = key + kGolden * (number + 1);
    z = (z ^ (z >> 30)) * kFirst;
    z = (z ^ (z >> 27)) * kSecond;
    return z ^ (z >> 31);
  }
};

// Which elements of a tensor are kept.
struct DropoutMask {
  const int64_t* step;  // in the memory of the values: a recorded step reads it anew at each replay
  uint64_t seed_word;   // word(0, seed)
  uint64_t site;
  uint64_t first;  // number of the tensor's first element in the whole batch
  uint64_t limit;  // an element is dropped if the upper half of its word is below
  double scale;    // factor of kept values

  // Of this step and site; a kernel asks once.
  constexpr uint64_t key() const {
    return SplitMix::word(SplitMix::word(seed_word, static_cast<uint64_t>(*step)), site);
  }
  constexpr bool keeps(uint64_t key, int64_t element) const {
    return SplitMix::word(key, first + static_cast<uint64_t>(element)) >> 32 >= limit;
  }
};

// y = x · scale where the mask keeps, else 0: values, and gradients on their way back. On a CPU float
// and double, on a GPU BFloat16 too.
template <class A>
void drop_elements(const A* x, A* y, int64_t size, const DropoutMask& mask);
template <class A>
void drop_elements(CudaStream stream, const A* x, A* y, int64_t size, const DropoutMask& mask);

}  // namespace geores::kernels
