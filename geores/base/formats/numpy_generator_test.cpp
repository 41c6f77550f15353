#include "geores/base/formats/numpy_generator.h"

#include <gtest/gtest.h>

#include "geores/testing/testing.h"

namespace geores {
namespace {

// NumPy's own values.
TEST(NumpyGenerator, WordsAreNumpys) {
  NumpyGenerator random(42);  // default_rng(42).random() -> 0.7739560485559633
  EXPECT_EQ(static_cast<double>(random.word() >> 11) * 0x1p-53, 0.7739560485559633);
}

TEST(NumpyGenerator, ChoicesAreDifferentAndInRange) {
  NumpyGenerator random(1);
  for (int64_t count = 0; count <= 30; ++count) {
    auto chosen = random.choice(30, count);
    ASSERT_EQ(static_cast<int64_t>(chosen.size()), count);
    std::ranges::sort(chosen);
    EXPECT_EQ(std::ranges::adjacent_find(chosen), chosen.end());
    for (const auto each : chosen) EXPECT_TRUE(each >= 0 && each < 30);
  }
}

TEST(NumpyGenerator, EveryValueIsEquallyLikely) {
  NumpyGenerator random(7);
  std::vector<int> count(5);
  for (int i = 0; i < 5000; ++i) ++count[random.up_to(4)];
  for (const auto each : count) EXPECT_NEAR(each, 1000, 150);
}

TEST(NumpyGenerator, ImpossibleChoicesAreRefused) {
  NumpyGenerator random(0);
  EXPECT_EQ(refusal([&] { random.choice(3, 4); }),
            "[numpy_generator] cannot choose 4 of 3; the population must be 1 to 10000");
}

}  // namespace
}  // namespace geores
