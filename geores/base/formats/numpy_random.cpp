#include "geores/base/formats/numpy_random.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "geores/base/error.h"

namespace geores {

double NumpyRandom::uniform(double low, double high) {
  const auto upper = word() >> 5;  // the order of these two draws matters
  const auto lower = word() >> 6;
  const auto unit = (upper * 67108864.0 + lower) / 9007199254740992.0;
  return low + (high - low) * unit;
}

double NumpyRandom::randn() {
  if (waiting_) return *std::exchange(waiting_, std::nullopt);
  double first, second, square;
  do {
    first = 2.0 * uniform() - 1.0;
    second = 2.0 * uniform() - 1.0;
    square = first * first + second * second;
  } while (square >= 1.0 || square == 0.0);
  const auto factor = std::sqrt(-2.0 * std::log(square) / square);
  waiting_ = factor * first;
  return factor * second;
}

int64_t NumpyRandom::randint(int64_t low, int64_t high) {
  require(low < high, "numpy_random", "randint needs low < high, got {} and {}", low, high);
  const auto span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) - 1;
  require(span <= std::numeric_limits<uint32_t>::max(), "numpy_random",
          "randint from {} to {} is more than 2^32 values", low, high);
  if (span == 0) return low;
  const auto mask = ~uint32_t{0} >> std::countl_zero(static_cast<uint32_t>(span));
  uint32_t value;
  do {
    value = word() & mask;
  } while (value > span);
  return low + static_cast<int64_t>(value);
}

}  // namespace geores
