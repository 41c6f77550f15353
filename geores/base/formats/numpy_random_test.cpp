#include "geores/base/formats/numpy_random.h"

#include <gtest/gtest.h>

#include <vector>

#include "geores/testing/testing.h"

namespace geores {
namespace {

// The literal values are NumPy's own, from RandomState(42) unless another seed is named.

TEST(NumpyRandom, UniformsAreNumpys) {
  NumpyRandom random(42);
  for (const double expected : {0.3745401188473625, 0.9507143064099162, 0.7319939418114051,
                                0.5986584841970366, 0.15601864044243652})
    EXPECT_EQ(random.uniform(), expected);
  NumpyRandom scaled(42);
  EXPECT_EQ(scaled.uniform(0.1, 2.5), 0.1 + (2.5 - 0.1) * 0.3745401188473625);
}

TEST(NumpyRandom, GaussiansAreNumpys) {
  NumpyRandom random(42);
  for (const double expected :
       {0.4967141530112327, -0.13826430117118466, 0.6476885381006925, 1.5230298564080254,
        -0.23415337472333597, -0.23413695694918055, 1.5792128155073915, 0.7674347291529088})
    EXPECT_DOUBLE_EQ(random.randn(), expected);
  NumpyRandom zero(0);
  for (const double expected : {1.764052345967664, 0.4001572083672233, 0.9787379841057392})
    EXPECT_DOUBLE_EQ(zero.randn(), expected);
}

TEST(NumpyRandom, IntegersAreNumpys) {
  NumpyRandom random(42);
  for (const int64_t expected : {51, 92, 14, 71, 60, 20, 82, 86, 74, 74})
    EXPECT_EQ(random.randint(0, 100), expected);
}

TEST(NumpyRandom, SecondGaussianOfAPairWaitsWhateverIsDrawnInBetween) {
  NumpyRandom plain(7), mixed(7);
  const auto first = plain.randn();
  const auto second = plain.randn();
  EXPECT_EQ(mixed.randn(), first);
  const auto between = mixed.uniform();
  EXPECT_EQ(mixed.randn(), second);
  EXPECT_EQ(plain.uniform(), between);
}

TEST(NumpyRandom, RangeOfOneValueDrawsNothing) {
  NumpyRandom plain(7), mixed(7);
  EXPECT_EQ(mixed.randint(15, 16), 15);
  EXPECT_EQ(mixed.uniform(), plain.uniform());
}

TEST(NumpyRandom, IntegersReachBothEndsOfTheirRangeAndNeverLeaveIt) {
  NumpyRandom random(1);
  std::vector<int> count(5);
  for (int i = 0; i < 5000; ++i) {
    const auto value = random.randint(-2, 3);
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 3);
    ++count[static_cast<std::size_t>(value + 2)];
  }
  for (const int each : count) EXPECT_NEAR(each, 1000, 150);
}

TEST(NumpyRandom, FullThirtyTwoBitRangeIsTheWordsThemselves) {
  NumpyRandom random(42);
  std::mt19937 words(42);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(random.randint(0, int64_t{1} << 32), static_cast<int64_t>(words()));
}

TEST(NumpyRandom, EmptyAndTooWideRangesAreRefused) {
  NumpyRandom random(0);
  EXPECT_EQ(refusal([&] { random.randint(3, 3); }),
            "[numpy_random] randint needs low < high, got 3 and 3");
  EXPECT_EQ(refusal([&] { random.randint(0, (int64_t{1} << 32) + 1); }),
            "[numpy_random] randint from 0 to 4294967297 is more than 2^32 values");
  EXPECT_EQ(refusal([&] { random.randint(INT64_MIN, INT64_MAX); }),
            "[numpy_random] randint from -9223372036854775808 to 9223372036854775807 is more than "
            "2^32 values");
}

}  // namespace
}  // namespace geores
