// NumPy's legacy generator, draw for draw: the numbers of numpy.random.RandomState(seed).
//   NumpyRandom random(42);
//   random.randn()         ->  0.4967141530112327      RandomState(42).randn()
//   random.uniform(a, b)   ->  a + (b - a) u           one double, two 32-bit words
//   random.randint(a, b)   ->  a <= value < b          masked rejection, one word per attempt
// The engine is MT19937 started with init_genrand(seed); u = (2^26 (w1 >> 5) + (w2 >> 6)) / 2^53.
// The polar method makes Gaussians in pairs; the second of a pair is kept for the next call of
// randn(), whatever is drawn in between. The last bit of a Gaussian depends on the machine's log().
#pragma once

#include <cstdint>
#include <optional>
#include <random>

namespace geores {

class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed) : engine_(seed) {}

  double uniform(double low = 0.0, double high = 1.0);
  double randn();

  // If only one value is possible, nothing is drawn. At most 2^32 values, low < high.
  int64_t randint(int64_t low, int64_t high);

 private:
  uint32_t word() { return static_cast<uint32_t>(engine_()); }

  std::mt19937 engine_;
  std::optional<double> waiting_;  // the second Gaussian of a pair
};

}  // namespace geores
