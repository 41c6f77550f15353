#include "geores/manifold/algebra/eigen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/algebra/solve.h"
#include "geores/manifold/permutation.h"

namespace geores::manifold {
namespace {

template <int N>
std::vector<std::complex<double>> spectrum(const Matrix<double, N>& a) {
  const auto found = eigenvalues(a);
  EXPECT_TRUE(found.converged);
  std::vector<std::complex<double>> result;
  for (int i = 0; i < N; ++i) result.emplace_back(found.real[i], found.imaginary[i]);
  return result;
}

double distance_to_nearest(const std::vector<std::complex<double>>& values,
                           std::complex<double> wanted) {
  double nearest = 1e300;
  for (const auto value : values) nearest = std::min(nearest, std::abs(value - wanted));
  return nearest;
}

TEST(Eigenvalues, OfKnownMatrices) {
  const auto turn = spectrum(Matrix<double, 2>{{{0, -1}, {1, 0}}});
  EXPECT_EQ(turn[0], std::complex<double>(0, 1));
  EXPECT_EQ(turn[1], std::complex<double>(0, -1));
  const auto triangle = spectrum(Matrix<double, 3>{{{3, 1, 4}, {0, -5, 9}, {0, 0, 2}}});
  for (const double wanted : {3.0, -5.0, 2.0})
    EXPECT_LT(distance_to_nearest(triangle, wanted), 1e-12);
  // x⁴ − 10x³ + 35x² − 50x + 24 = (x−1)(x−2)(x−3)(x−4), as a companion matrix
  const auto companion =
      spectrum(Matrix<double, 4>{{{10, -35, 50, -24}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}});
  for (const double wanted : {1.0, 2.0, 3.0, 4.0})
    EXPECT_LT(distance_to_nearest(companion, wanted), 1e-11);
  EXPECT_EQ(spectrum(Matrix<double, 1>{{{-7}}})[0], -7.0);
}

TEST(Eigenvalues, OfACyclicShiftAreTheRootsOfUnity) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    const auto values = spectrum(JpmhcPermutations<N>(0)[3].template matrix<double>());
    for (int k = 0; k < N; ++k)
      EXPECT_LT(distance_to_nearest(values, std::polar(1.0, 2 * 3.14159265358979323846 * k / N)),
                1e-12)
          << "n = " << N;
  });
}

TEST(Eigenvalues, SumToTheTraceMultiplyToTheDeterminantAndAnnihilate) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 500; ++index) {
      const auto a = normal_matrix<double, N>(random);
      std::complex<double> sum = 0, product = 1;
      for (const auto value : spectrum(a)) {
        sum += value;
        product *= value;
        if (value.imag() != 0) continue;
        auto shifted = a;
        for (int i = 0; i < N; ++i) shifted(i, i) -= value.real();
        ASSERT_LE(std::abs(determinant(shifted)), 1e-9 * std::pow(5.0, N));
      }
      ASSERT_LT(std::abs(sum - trace(a)), 1e-12);
      ASSERT_LT(std::abs(product - determinant(a)), 1e-10 * (1 + std::abs(product)));
    }
  });
}

TEST(Eigenvalues, ConvergeForEveryPermutationAndEveryIntegerMatrix) {
  for (int index = 0; index < factorial(6); ++index)
    ASSERT_TRUE(eigenvalues(nth_permutation<6>(index).matrix<double>()).converged);
  SplitMix64 random(1);
  for (int index = 0; index < 20000; ++index) {
    Matrix<double, 4> a{};
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) a(i, j) = random.below(3) - 1;
    ASSERT_TRUE(eigenvalues(a).converged);
  }
}

TEST(Eigenvalues, NotANumberAndInfinityEndAndShow) {
  for (const double broken :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    SplitMix64 random(2);
    auto a = normal_matrix<double, 5>(random);
    a(3, 1) = broken;
    EXPECT_FALSE(eigenvalues(a).converged);
  }
}

}  // namespace
}  // namespace geores::manifold
