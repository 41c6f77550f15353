// The GPU's kernels of dropout, emulated, against those of the CPU, which ops/training/dropout_test.cpp
// compares with their definition.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <bit>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/training/dropout.h"

namespace geores::kernels {
namespace {

constexpr double kRate = 0.3;

struct Place {
  int64_t step, site, first;
};
const Place kPlaces[] = {{0, 0, 0}, {5, 9, 0}, {4999, 18, 77}, {1, 2, int64_t{3} << 32}};

DropoutMask mask_at(const Place& place) {
  return {.step = &place.step,
          .seed_word = SplitMix::word(0, 7),
          .site = static_cast<uint64_t>(place.site),
          .first = static_cast<uint64_t>(place.first),
          .limit = static_cast<uint64_t>(kRate * 4294967296.0),
          .scale = 1 / (1 - kRate)};
}

std::string text(const Place& place, int64_t size) {
  return std::to_string(size) + " values, step " + std::to_string(place.step) + ", site " +
         std::to_string(place.site) + ", first " + std::to_string(place.first);
}

// `from`: where the values begin, which is at a multiple of 16 bytes or not.
template <class T>
void compare_dropped(const Place& place, int64_t size, int64_t from) {
  const auto x = drawn<T>(size + from);
  auto y = room<T>(size + from), wanted = y;
  const auto mask = mask_at(place);
  drop_elements(kStream, x.data() + from, y.data() + from, size, mask);
  drop_elements(x.data() + from, wanted.data() + from, size, mask);
  EXPECT_EQ(y, wanted) << text(place, size);
}

TEST(EmulatedDropout, DropsAndScalesAsTheCpuDoes) {
  for (const auto& place : kPlaces) {
    for (const int64_t size : {1, 3, 4, 1025, 20004})  // of the last, threads take several runs
      for (const int64_t from : {0, 1}) {
        compare_dropped<float>(place, size, from);
        compare_dropped<double>(place, size, from);
      }
  }
}

TEST(EmulatedDropout, InBfloat16IsThatOfFloat32Rounded) {
  for (const auto& place : kPlaces)
    for (const int64_t size : {1, 7, 8, 1032}) {
      auto x = drawn<float>(size), wanted = room<float>(size);
      std::vector<BFloat16> half(x.size()), y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        half[i].bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i]) >> 16);
        x[i] = std::bit_cast<float>(static_cast<uint32_t>(half[i].bits) << 16);
      }
      drop_elements(kStream, half.data(), y.data(), size, mask_at(place));
      drop_elements(x.data(), wanted.data(), size, mask_at(place));
      for (size_t i = 0; i < x.size(); ++i) {
        const auto is = std::bit_cast<float>(static_cast<uint32_t>(y[i].bits) << 16);
        EXPECT_NEAR(is, wanted[i], std::abs(wanted[i]) / 256) << text(place, size) << " at " << i;
      }
    }
}

}  // namespace
}  // namespace geores::kernels
#endif
