// Standard normal numbers that are the same on every machine: std::normal_distribution and
// std::shuffle differ from one standard library to the next, so the seed of a mixer or of a sample
// would mean something else in a browser. Uniform numbers from manifold/random.h, made normal by
// Marsaglia's polar method (1964), whose rejections need plain arithmetic only.
#pragma once

#include <cmath>
#include <cstdint>

#include "geores/manifold/algebra/random.h"

namespace geores::spectral {

class NormalNumbers {
 public:
  // `part` picks one of many independent sequences of the same seed.
  NormalNumbers(std::uint64_t seed, std::uint64_t part)
      : uniform_(manifold::SplitMix64(seed).next() ^ manifold::SplitMix64(~part).next()) {}

  double next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double x, y, square;
    do {
      x = uniform_.uniform(-1, 1);
      y = uniform_.uniform(-1, 1);
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double scale = std::sqrt(-2 * std::log(square) / square);
    spare_ = y * scale;
    has_spare_ = true;
    return x * scale;
  }

  // Uniform in 0 … bound − 1.
  int below(int bound) { return uniform_.below(bound); }

 private:
  manifold::SplitMix64 uniform_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace geores::spectral
