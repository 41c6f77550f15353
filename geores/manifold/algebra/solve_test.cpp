#include "geores/manifold/algebra/solve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"

namespace geores::manifold {
namespace {

TEST(Scalar, DifferenceOfProductsKeepsItsDigits) {
  EXPECT_EQ(difference_of_products(0.1, 0.3, 0.3, 0.1), 0.0);
  EXPECT_EQ(difference_of_products(0.1f, 0.3f, 0.3f, 0.1f), 0.0f);
  const double e = 0x1p-30;
  EXPECT_EQ(difference_of_products(1 + e, 1 - e, 1.0, 1.0), -e * e);
  const float f = 0x1p-15f;
  EXPECT_EQ(difference_of_products(1 + f, 1 - f, 1.0f, 1.0f), -f * f);
}

TEST(Scalar, PowerOfTwoBelowIsExactAndCoversTheRange) {
  static_assert(power_of_two_below(1.0) == 1.0);
  static_assert(power_of_two_below(-7.9) == 4.0);
  static_assert(power_of_two_below(0.3f) == 0.25f);
  static_assert(power_of_two_below(0.0f) == Precision<float>::smallest_normal);
  EXPECT_EQ(power_of_two_below(std::numeric_limits<double>::max()), 0x1p1023);
  EXPECT_TRUE(std::isinf(power_of_two_below(std::numeric_limits<double>::quiet_NaN())));
}

TEST(Scalar, ProductOfThreeDoesNotOverflowOnTheWay) {
  EXPECT_NEAR(product_of_three(1e30f, 1e30f, 1e-30f) / 1e30f, 1.0f, 1e-6f);
  EXPECT_NEAR(product_of_three(1e-30f, 1e30f, 1e-30f) / 1e-30f, 1.0f, 1e-6f);
  EXPECT_NEAR(product_of_three(1e30f, 1e-30f, -1e30f) / 1e30f, -1.0f, 1e-6f);
  EXPECT_EQ(product_of_three(2.0, 3.0, 5.0), 30.0);
}

TEST(Scalar, LargerClampAndFiniteTreatNotANumberAsSuch) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(larger(nan, 1.0)) && std::isnan(larger(1.0, nan)));
  EXPECT_TRUE(std::isnan(clamp(nan, -1.0, 1.0)));
  EXPECT_TRUE(is_finite(1e300) && !is_finite(nan));
  EXPECT_FALSE(is_finite(std::numeric_limits<double>::infinity()));
}

TEST(Matrix, AlgebraIsEvaluatedAtCompileTime) {
  constexpr Matrix<int, 2> a{{{1, 2}, {3, 4}}};
  static_assert((a * a)(1, 0) == 15);
  static_assert((a - transpose(a))(0, 1) == -1);
  static_assert(trace(a) == 5 && inner(a, a) == 30);
  static_assert((a * Vector<int, 2>{{1, -1}})[1] == -1);
  static_assert(transpose_times(a, Vector<int, 2>{{1, -1}})[1] == -2);
  static_assert(outer(Vector<int, 2>{{1, 2}}, Vector<int, 3>{{3, 4, 5}})(1, 2) == 10);
  static_assert(determinant(Matrix<double, 2>{{{0, 2}, {3, 4}}}) == -6);
}

TEST(Solve, RecoversTheSolution) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 100; ++index) {
      const auto a = normal_matrix<double, N>(random);
      const auto expected = normal_matrix<double, N, 2>(random);
      Matrix<double, N, 2> found{};
      ASSERT_TRUE(solve(a, a * expected, found));
      ASSERT_LE(largest_entry(found - expected), 1e-9);
    }
  });
}

TEST(Solve, PivotsPastAZeroAndASmallDiagonal) {
  Matrix<double, 2, 1> x{};
  ASSERT_TRUE(solve(Matrix<double, 2>{{{0, 2}, {4, 0}}}, Matrix<double, 2, 1>{{{6}, {8}}}, x));
  EXPECT_EQ(x(0, 0), 2);
  EXPECT_EQ(x(1, 0), 3);
  ASSERT_TRUE(solve(Matrix<double, 2>{{{1e-20, 1}, {1, 1}}}, Matrix<double, 2, 1>{{{1}, {2}}}, x));
  EXPECT_NEAR(x(0, 0), 1, 1e-15);
  EXPECT_NEAR(x(1, 0), 1, 1e-15);
}

TEST(Solve, ReportsASingularMatrixAndLeavesTheResultAlone) {
  Matrix<double, 2, 1> x{{{5}, {6}}};
  EXPECT_FALSE(solve(Matrix<double, 2>{{{1, 2}, {2, 4}}}, Matrix<double, 2, 1>{{{1}, {1}}}, x));
  EXPECT_EQ(x(0, 0), 5);
  EXPECT_EQ(x(1, 0), 6);
}

TEST(Determinant, IsMultiplicativeAndSignedByRowSwaps) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(20 + N);
    const auto a = normal_matrix<double, N>(random), b = normal_matrix<double, N>(random);
    const double product = determinant(a) * determinant(b);
    EXPECT_NEAR(determinant(a * b), product, 1e-11 * (1 + std::abs(product)));
  });
  EXPECT_EQ(determinant(Matrix<double, 3>{{{0, 1, 0}, {1, 0, 0}, {0, 0, 1}}}), -1);
  EXPECT_EQ(determinant(Matrix<double, 3>{{{1, 2, 3}, {2, 4, 6}, {0, 0, 1}}}), 0);
}

}  // namespace
}  // namespace geores::manifold
