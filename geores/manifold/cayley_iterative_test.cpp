#include "geores/manifold/cayley_iterative.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/algebra/svd.h"
#include "geores/manifold/cayley_general.h"

namespace geores::manifold {
namespace {

template <int N>
Matrix<double, N> random_skew(SplitMix64& random) {
  const auto h = normal_matrix<double, N>(random);
  return h - transpose(h);
}

// A skew matrix whose singular values all equal `size`: size · J with J² = −I.
Matrix<double, 4> complex_structure(double size) {
  return {{{0, size, 0, 0}, {-size, 0, 0, 0}, {0, 0, 0, size}, {0, 0, -size, 0}}};
}

template <int N>
double defect(const Matrix<double, N>& m, int steps) {
  const auto y = cayley_iteration(m, 1.0, steps);
  return spectral_norm(transpose(y) * y - identity<double, N>());
}

TEST(IterativeCayley, DefectIsThePolynomialInMForOneTwoAndThreeSteps) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const double alpha = 0.1;
    const auto h = normal_matrix<double, N>(random);
    const auto m = alpha * (h - transpose(h));
    const auto m2 = m * m, m4 = m2 * m2, m6 = m2 * m4, m8 = m4 * m4;
    const Matrix<double, N> expected[] = {0.25 * m4, -0.25 * m4 - 0.0625 * m6,
                                          0.0625 * m6 + 0.015625 * m8};
    for (int steps = 1; steps <= 3; ++steps) {
      const auto y = iterative_cayley(h, alpha, steps);
      const auto found = transpose(y) * y - identity<double, N>();
      EXPECT_LE(largest_entry(found - expected[steps - 1]), 1e-12) << steps << " steps";
    }
  });
}

TEST(IterativeCayley, TwoStepDefectIsBelow1e3UpToANormOf02524) {
  SplitMix64 random(1);
  for (int index = 0; index < 200; ++index) {
    const auto skew = random_skew<4>(random);
    const auto unit = (1 / spectral_norm(skew)) * skew;
    ASSERT_LT(defect(0.2524 * unit, 2), 1e-3);
    ASSERT_GT(defect(0.2526 * unit, 2), 1e-3);
    ASSERT_GT(defect(random.uniform(0.2526, 1.999) * unit, 2), 1e-3);
  }
}

TEST(IterativeCayley, TwoStepDefectIsSmallAgainNearANormOfTwo) {
  EXPECT_LT(defect(complex_structure(1.9998), 2), 1e-3);
  EXPECT_LT(defect(complex_structure(2.0002), 2), 1e-3);
  EXPECT_GT(defect(complex_structure(1.9997), 2), 1e-3);
}

TEST(IterativeCayley, OneStepIsAsGoodAsTwoAndThreeAreFarBetter) {
  for (const double m : {0.05, 0.1, 0.25, 0.5, 1.0}) {
    const double one = defect(complex_structure(m), 1), two = defect(complex_structure(m), 2),
                 three = defect(complex_structure(m), 3), scale = 1 - m * m / 4;
    EXPECT_NEAR(two, one * scale, 1e-12) << m;
    EXPECT_NEAR(three, two * m * m / 4, 1e-12) << m;
  }
}

TEST(IterativeCayley, TwiceAComplexStructureGivesMinusIdentityAtTwoSteps) {
  const auto j = complex_structure(1.0), one = identity<double, 4>();
  const auto y = [&](int steps) { return iterative_cayley(j, 1.0, steps); };  // W = 2J
  EXPECT_EQ(largest_entry(y(2) + one), 0.0);
  EXPECT_EQ(largest_entry(y(3) - one), 0.0);  // and Y does not stay at −I: it has period four
  EXPECT_EQ(largest_entry(y(6) + one), 0.0);
}

TEST(IterativeCayley, ConvergesToTheExactMapBelowANormOfTwo) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(40 + N);
    auto w = random_skew<N>(random);
    w = (1 / spectral_norm(w)) * w;
    const auto exact = cayley_transform(-0.5 * w);
    EXPECT_LE(largest_entry(cayley_iteration(w, 1.0, 60) - exact), 1e-12);
    EXPECT_LE(orthogonality_defect(exact), 1e-12);
  });
}

TEST(IterativeCayley, GradientMatchesCentralDifferences) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(80 + N);
    for (const int steps : {0, 1, 2, 3, 5}) {
      auto h = normal_matrix<double, N>(random);
      const auto cotangent = normal_matrix<double, N>(random);
      const auto gradient = iterative_cayley_backward(h, 0.1, steps, cotangent);
      const auto loss = [&] { return inner(cotangent, iterative_cayley(h, 0.1, steps)); };
      EXPECT_LE(gradient_error(&h(0, 0), &gradient(0, 0), N * N, loss), 1e-7)
          << "n = " << N << ", " << steps << " steps";
    }
  });
}

}  // namespace
}  // namespace geores::manifold
