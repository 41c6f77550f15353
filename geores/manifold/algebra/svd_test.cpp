#include "geores/manifold/algebra/svd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/qr.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/algebra/solve.h"

namespace geores::manifold {
namespace {

template <int N>
Matrix<double, N> random_orthogonal(SplitMix64& random) {
  return qr(normal_matrix<double, N>(random)).q;
}

template <int N>
Matrix<double, N> diagonal(const Vector<double, N>& entries) {
  Matrix<double, N> result{};
  for (int i = 0; i < N; ++i) result(i, i) = entries[i];
  return result;
}

double frobenius_distance(const auto& a, const auto& b) { return std::sqrt(inner(a - b, a - b)); }

TEST(SingularValues, OfKnownMatrices) {
  const auto shear = singular_values(Matrix<double, 2>{{{1, 1}, {0, 1}}});
  EXPECT_NEAR(shear[0], (std::sqrt(5.0) + 1) / 2, 1e-14);
  EXPECT_NEAR(shear[1], (std::sqrt(5.0) - 1) / 2, 1e-14);
  const auto signs = singular_values(diagonal<3>({{-3, 2, -5}}));
  EXPECT_EQ(signs[0], 5);
  EXPECT_EQ(signs[1], 3);
  EXPECT_EQ(signs[2], 2);
  EXPECT_EQ(spectral_norm(Matrix<double, 1>{{{-7}}}), 7);
  const auto ones = singular_values(Matrix<double, 3>{{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}});
  EXPECT_NEAR(ones[0], 3, 1e-14);
  EXPECT_NEAR(ones[1], 0, 1e-14);
}

TEST(SingularValues, RecoverThoseAMatrixWasMadeOf) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 50; ++index) {
      Vector<double, N> sigma{};
      for (int i = 0; i < N; ++i) sigma[i] = N - i + random.uniform(0, 0.5);
      const auto a =
          random_orthogonal<N>(random) * diagonal(sigma) * transpose(random_orthogonal<N>(random));
      ASSERT_LE(largest_entry(singular_values(a) - sigma), 1e-13);
    }
  });
}

TEST(SingularValues, DecompositionIsOrthonormalSortedAndReproducesTheMatrix) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(20 + N);
    for (int index = 0; index < 50; ++index) {
      auto a = normal_matrix<double, N + 1, N>(random);
      if (index % 2) set_column(a, 0, column(a, N - 1));  // rank deficient for N > 1
      if (index == 2) a = {};
      const auto [u, sigma, v] = singular_value_decomposition(a);
      ASSERT_LE(orthogonality_defect(u), 1e-13) << "n = " << N;
      ASSERT_LE(orthogonality_defect(v), 1e-13);
      ASSERT_LE(largest_entry(u * diagonal(sigma) * transpose(v) - a), 1e-13);
      for (int i = 1; i < N; ++i) ASSERT_GE(sigma[i - 1], sigma[i]);
    }
  });
}

TEST(SingularValues, HoldAtTheEndsOfTheRange) {
  for (const double scale : {1e-300, 1e-160, 1.0, 1e160, 1e300}) {
    const auto sigma = singular_values(scale * Matrix<double, 2>{{{1, 1}, {0, 1}}});
    EXPECT_NEAR(sigma[0] / scale, (std::sqrt(5.0) + 1) / 2, 1e-14);
    EXPECT_NEAR(sigma[1] / scale, (std::sqrt(5.0) - 1) / 2, 1e-14);
  }
}

TEST(PolarFactor, IsOrthogonalAndLeavesASymmetricPositiveRest) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(40 + N);
    const auto a = normal_matrix<double, N>(random);
    const auto w = polar_factor(a);
    const auto rest = transpose(w) * a;
    EXPECT_LE(orthogonality_defect(w), 1e-13);
    EXPECT_LE(largest_entry(rest - transpose(rest)), 1e-13);
    EXPECT_NEAR(trace(rest), dot(singular_values(a), singular_values(w)), 1e-12);
  });
}

TEST(PolarFactor, IsNearerThanAnyOtherOrthogonalMatrix) {
  for_sizes<2, 3, 4, 8>([]<int N>() {
    SplitMix64 random(60 + N);
    const auto a = normal_matrix<double, N>(random);
    const auto w = polar_factor(a);
    const double nearest = frobenius_distance(a, w);
    for (int index = 0; index < 200; ++index) {
      ASSERT_GT(frobenius_distance(a, random_orthogonal<N>(random)), nearest);
      const auto near = qr(w + 1e-3 * normal_matrix<double, N>(random)).q;
      ASSERT_GT(frobenius_distance(a, near), nearest);
    }
  });
}

TEST(PolarFactor, IsOrthogonalForSingularMatrices) {
  const Matrix<double, 3> rank_one{{{1, 2, 3}, {2, 4, 6}, {3, 6, 9}}};
  EXPECT_LE(orthogonality_defect(polar_factor(rank_one)), 1e-13);
  EXPECT_LE(orthogonality_defect(polar_factor(Matrix<double, 3>{})), 1e-13);
}

TEST(SingularValues, NotANumberAndInfinityEndAndShow) {
  for (const double broken :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Matrix<double, 4> a{};
    a(1, 2) = broken;
    a(0, 0) = 1;
    EXPECT_TRUE(std::isnan(largest_entry(singular_values(a))));
    EXPECT_TRUE(std::isnan(largest_entry(polar_factor(a))));
  }
}

}  // namespace
}  // namespace geores::manifold
