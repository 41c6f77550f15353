// A deterministic sequence of random numbers (SplitMix64, Steele et al. 2014): the same seed gives
// the same numbers on every machine. JPmHC's seeded permutation and random test matrices use it. It
// is not for cryptography.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

class SplitMix64 {
 public:
  GEORES_HOST_DEVICE constexpr explicit SplitMix64(unsigned long long seed) : state_(seed) {}

  GEORES_HOST_DEVICE constexpr unsigned long long next() {
    state_ += 0x9e3779b97f4a7c15ull;
    unsigned long long z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // Uniform in [0, 1), 53 bits.
  GEORES_HOST_DEVICE constexpr double uniform() {
    return static_cast<double>(next() >> 11) * 0x1p-53;
  }

  GEORES_HOST_DEVICE constexpr double uniform(double low, double high) {
    return low + (high - low) * uniform();
  }

  // Uniform in 0..bound-1. bound is small against 2^64, so the bias of the remainder is negligible.
  GEORES_HOST_DEVICE constexpr int below(int bound) {
    return static_cast<int>(next() % static_cast<unsigned long long>(bound));
  }

  // Standard normal (Box–Muller; only one of the pair is used).
  GEORES_HOST_DEVICE double normal() {
    const double radius = square_root(-2.0 * logarithm(1.0 - uniform()));
    return radius * cosine(6.283185307179586476925286766559 * uniform());
  }

 private:
  unsigned long long state_;
};

template <class T, int R, int C = R>
GEORES_HOST_DEVICE Matrix<T, R, C> normal_matrix(SplitMix64& random) {
  Matrix<T, R, C> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result(i, j) = static_cast<T>(random.normal());
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE Vector<T, N> normal_vector(SplitMix64& random) {
  Vector<T, N> result{};
  for (int i = 0; i < N; ++i) result[i] = static_cast<T>(random.normal());
  return result;
}

}  // namespace geores::manifold
