#include "lab/experiments/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace geores {
namespace {

TEST(Statistics, MeanAndSampleDeviation) {
  const auto sample = sample_of({1, 2, 4});
  EXPECT_DOUBLE_EQ(sample.mean, 7.0 / 3);
  EXPECT_NEAR(sample.deviation, std::sqrt(7.0 / 3), 1e-15);
  EXPECT_EQ(sample.count, 3);
  EXPECT_TRUE(std::isnan(sample_of({1}).deviation));
  EXPECT_FALSE(sample_of({}).known());
}

// One degree of freedom is the Cauchy distribution, two have p = 1 − t/√(2 + t²).
TEST(Statistics, StudentAgainstClosedForms) {
  for (const double t : {0.1, 1.0, 3.0, 30.0}) {
    EXPECT_NEAR(student_two_sided(t, 1), 1 - 2 / M_PI * std::atan(t), 1e-13) << t;
    EXPECT_NEAR(student_two_sided(-t, 2), 1 - t / std::sqrt(2 + t * t), 1e-13) << t;
  }
  // Table value: t = 2.776445 is the two-sided 5 % point for four degrees of freedom.
  EXPECT_NEAR(student_two_sided(2.776445105, 4), 0.05, 1e-9);
  EXPECT_NEAR(student_two_sided(1.959963985, 1e7), 0.05, 1e-7) << "the normal distribution";
}

// Published: stability, EΔ 4.35 ± 0.27 against JPmHC 8.19 ± 3.69 (three seeds each).
TEST(Statistics, ThePublishedStabilityClaimIsNotSignificant) {
  const auto test = welch_test({4.35, 0.27, 3}, {8.19, 3.69, 3});
  EXPECT_NEAR(test.t, 1.798, 1e-3);
  EXPECT_NEAR(test.freedom, 2.02, 0.01);
  EXPECT_GT(test.p, 0.2);
  EXPECT_LT(welch_test({8.19, 3.69, 3}, {4.35, 0.27, 3}).t, 0);
}

TEST(Statistics, NothingCanBeTestedWithoutADeviation) {
  EXPECT_FALSE(welch_test({1, NAN, 1}, {2, 0.1, 3}).known());
  EXPECT_FALSE(welch_test({1, 0.1, 3}, {2, NAN, 1}).known());
}

}  // namespace
}  // namespace geores
