#include "geores/manifold/sinkhorn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/algebra/solve.h"

namespace geores::manifold {
namespace {

constexpr SinkhornOptions kConverged{.iterations = 2000};

// mHC's initial logits: the diagonal 0, the rest −8.
template <class T, int N>
Matrix<T, N> identity_logits() {
  Matrix<T, N> logits{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) logits(i, j) = i == j ? T(0) : T(-8);
  return logits;
}

template <class T, int N>
T worst_row_sum(const Matrix<T, N>& p) {
  T worst = 0;
  for (int i = 0; i < N; ++i) {
    T sum = 0;
    for (int j = 0; j < N; ++j) sum += p(i, j);
    worst = larger(worst, absolute(sum - T(1)));
  }
  return worst;
}

template <class T, int N>
T relative_error(const Matrix<T, N>& found, const Matrix<T, N>& expected) {
  const auto apart = found - expected;
  return square_root(inner(apart, apart) / inner(expected, expected));
}

TEST(Sinkhorn, TwentyIterationsMakeTheColumnsSumToOneAndTheRowsNearly) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 100; ++index) {
      const auto p = sinkhorn(normal_matrix<double, N>(random));
      ASSERT_LE(worst_row_sum(transpose(p)), 1e-12);
      ASSERT_LE(worst_row_sum(p), 1e-3);
    }
  });
}

TEST(Sinkhorn, ConvergedIsDoublyStochastic) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto p = sinkhorn(normal_matrix<double, N>(random), kConverged);
    EXPECT_LE(worst_row_sum(p), 1e-12);
    EXPECT_LE(worst_row_sum(transpose(p)), 1e-12);
  });
}

TEST(Sinkhorn, DeterminantOfADoublyStochasticMatrixIsAtMostOneInSize) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 200; ++index)
      ASSERT_LE(std::abs(determinant(sinkhorn(5.0 * normal_matrix<double, N>(random), kConverged))),
                1 + 1e-12);
  });
}

TEST(Sinkhorn, RowsAreNormalisedBeforeColumns) {
  const Matrix<double, 2> logits{{{0, std::log(3.0)}, {std::log(2.0), 0}}};  // weights 1 3 / 2 1
  const auto p = sinkhorn(logits, {.iterations = 1});
  EXPECT_NEAR(p(0, 0), 0.25 / (0.25 + 2.0 / 3), 1e-12);
  EXPECT_NEAR(p(0, 1), 0.75 / (0.75 + 1.0 / 3), 1e-12);
}

// The definition in log space: potentials instead of divisions.
template <int N>
Matrix<double, N> in_log_space(const Matrix<double, N>& logits, int iterations) {
  const auto potential = [&](const Vector<double, N>& others, bool rows) {
    Vector<double, N> made{};
    for (int i = 0; i < N; ++i) {
      const auto at = [&](int j) { return (rows ? logits(i, j) : logits(j, i)) + others[j]; };
      double largest = at(0), sum = 0;
      for (int j = 1; j < N; ++j) largest = std::max(largest, at(j));
      for (int j = 0; j < N; ++j) sum += std::exp(at(j) - largest);
      made[i] = -largest - std::log(sum);
    }
    return made;
  };
  Vector<double, N> f{}, g{};
  for (int k = 0; k < iterations; ++k) {
    f = potential(g, true);
    g = potential(f, false);
  }
  Matrix<double, N> p{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) p(i, j) = std::exp(logits(i, j) + f[i] + g[j]);
  return p;
}

TEST(Sinkhorn, DividesAsItsDefinitionInLogSpaceSays) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (const double spread : {1.0, 20.0})
      for (int index = 0; index < 100; ++index) {
        const auto logits = spread * normal_matrix<double, N>(random);
        ASSERT_LE(largest_entry(sinkhorn(logits, {.bound = 0}) - in_log_space(logits, 20)), 1e-12);
      }
  });
}

TEST(Sinkhorn, WithoutABoundLogitsAreTakenAsTheyAre) {
  Matrix<double, 3> logits{{{30, 0, -50}, {2, -12, 1}, {0, 3, 11}}};
  const SinkhornOptions options{.bound = 0};
  const auto p = sinkhorn(logits, options);
  EXPECT_GE(largest_entry(sinkhorn(logits) - p), 1e-6);
  SplitMix64 random(1);
  const auto cotangent = normal_matrix<double, 3>(random);
  const auto gradient = sinkhorn_backward_unrolled(logits, cotangent, options);
  EXPECT_NE(gradient(0, 2), 0.0);
  EXPECT_NE(gradient(2, 2), 0.0);
  // A constant added to a row is removed by the first division, however large.
  auto shifted = logits;
  for (int j = 0; j < 3; ++j) shifted(1, j) += 700;
  EXPECT_LE(largest_entry(sinkhorn(shifted, options) - p), 1e-12);
}

// The price of divisions: in float a logit counts as at most 80 below the largest of its row.
TEST(Sinkhorn, LogitsFarBelowTheLargestOfTheirRowCountAsTheRange) {
  const Matrix<float, 2> far{{{0, -500}, {0, -90}}}, near{{{0, -80}, {0, -80}}};
  const SinkhornOptions options{.bound = 0};
  EXPECT_EQ(largest_entry(sinkhorn(far, options) - sinkhorn(near, options)), 0.0f);
  const Matrix<double, 2> wide{{{0, -500}, {0, -90}}};
  EXPECT_LE(largest_entry(sinkhorn(wide, options) - in_log_space(wide, 20)), 1e-12);
}

TEST(Sinkhorn, LogitsBeyondTenCountAsTen) {
  Matrix<double, 3> logits{{{1e300, 0, -50}, {2, -12, 1}, {0, 3, 11}}};
  const Matrix<double, 3> clamped{{{10, 0, -10}, {2, -10, 1}, {0, 3, 10}}};
  EXPECT_EQ(largest_entry(sinkhorn(logits) - sinkhorn(clamped)), 0.0);
  SplitMix64 random(1);
  const auto cotangent = normal_matrix<double, 3>(random);
  const auto implicit = sinkhorn_backward_implicit(logits, sinkhorn(logits), cotangent);
  const auto unrolled = sinkhorn_backward_unrolled(logits, cotangent);
  for (const auto& gradient : {implicit, unrolled}) {
    EXPECT_EQ(gradient(0, 0), 0.0);
    EXPECT_EQ(gradient(1, 1), 0.0);
    EXPECT_EQ(gradient(2, 2), 0.0);
    EXPECT_NE(gradient(1, 0), 0.0);
  }
}

TEST(Sinkhorn, DoesNotOverflowInFloatAtTheBound) {
  for_sizes<2, 3, 4, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 500; ++index) {
      Matrix<float, N> logits{};
      Matrix<double, N> clamped{};
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
          logits(i, j) = random.below(2) ? 100.0f : -100.0f;
          clamped(i, j) = logits(i, j) > 0 ? 10 : -10;
        }
      const auto p = sinkhorn(logits);
      ASSERT_LE(worst_row_sum(transpose(p)), 1e-5f);
      const auto exact = in_log_space(clamped, 20);
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) ASSERT_NEAR(p(i, j), exact(i, j), 1e-5);
    }
  });
}

// Weights 1 3 / 2 1. The EΔ paper adds its guard to every sum, DeepSeek-V4 at first to the quotients.
TEST(Sinkhorn, GuardsByHand) {
  const Matrix<double, 2> logits{{{0, std::log(3.0)}, {std::log(2.0), 0}}};
  const double guard = 0.125;
  const auto guarded = sinkhorn(logits, {.iterations = 1, .bound = 0, .guard = guard});
  const double a = 1 / (4 + guard), b = 2 / (3 + guard);
  EXPECT_NEAR(guarded(0, 0), a / (a + b + guard), 1e-14);
  const auto softmax =
      sinkhorn(logits, {.iterations = 1, .bound = 0, .guard = guard, .softmax = true});
  const double c = 0.25 + guard, d = 2 / 3.0 + guard;
  EXPECT_NEAR(softmax(0, 0), c / (c + d + guard), 1e-14);
}

TEST(Sinkhorn, ImplicitGradientMatchesCentralDifferencesOfTheConvergedForward) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(20 + N);
    for (int index = 0; index < 3; ++index) {
      auto logits = normal_matrix<double, N>(random);
      const auto cotangent = normal_matrix<double, N>(random);
      const SinkhornOptions options{.iterations = 300};
      const auto gradient =
          sinkhorn_backward_implicit(logits, sinkhorn(logits, options), cotangent, options);
      const auto loss = [&] { return inner(cotangent, sinkhorn(logits, options)); };
      EXPECT_LE(gradient_error(&logits(0, 0), &gradient(0, 0), N * N, loss), 1e-8) << "n = " << N;
    }
  });
}

TEST(Sinkhorn, ImplicitGradientMatchesCentralDifferencesNearTheIdentity) {
  for_sizes<2, 4>([]<int N>() {
    SplitMix64 random(40 + N);
    auto logits = identity_logits<double, N>();
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) logits(i, j) += 0.1 * random.normal();
    const auto cotangent = normal_matrix<double, N>(random);
    // The forward pass converges slowly too.
    const SinkhornOptions options{.iterations = 30000};
    const auto gradient =
        sinkhorn_backward_implicit(logits, sinkhorn(logits, options), cotangent, options);
    const auto loss = [&] { return inner(cotangent, sinkhorn(logits, options)); };
    EXPECT_LE(gradient_error(&logits(0, 0), &gradient(0, 0), N * N, loss, 1e-2), 1e-8);
  });
}

TEST(Sinkhorn, ImplicitGradientSolvesItsTwoEquations) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(60 + N);
    const auto logits = 2.0 * normal_matrix<double, N>(random);
    const auto gradient = sinkhorn_backward_implicit(logits, sinkhorn(logits, kConverged),
                                                     normal_matrix<double, N>(random), kConverged);
    // P ⊙ (S − u1ᵀ − 1vᵀ) has zero row and column sums, because adding a number to a row or column
    // of logits changes nothing.
    Vector<double, N> ones{};
    for (int i = 0; i < N; ++i) ones[i] = 1;
    EXPECT_LE(largest_entry(gradient * ones), 1e-12);
    EXPECT_LE(largest_entry(transpose(gradient) * ones), 1e-12);
  });
}

// Node 0 hardly mixes with the others: their gradient is that of the matrix without it, however far.
TEST(Sinkhorn, ImplicitGradientOfNodesThatAreCutOffIsThatOfTheRest) {
  SplitMix64 random(70);
  const SinkhornOptions options{.iterations = 60, .bound = 0};
  for (const float far : {20.0f, 30.0f, 40.0f, 90.0f}) {
    const auto rest = normal_matrix<float, 3>(random),
               rest_cotangent = normal_matrix<float, 3>(random);
    Matrix<float, 4> logits{}, cotangent{};
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        const bool inside = i > 0 && j > 0;
        logits(i, j) = inside ? rest(i - 1, j - 1) : (i == j ? 0.0f : -far);
        cotangent(i, j) = inside ? rest_cotangent(i - 1, j - 1) : 1.0f;
      }
    const auto gradient =
        sinkhorn_backward_implicit(logits, sinkhorn(logits, options), cotangent, options);
    const auto expected =
        sinkhorn_backward_implicit(rest, sinkhorn(rest, options), rest_cotangent, options);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) EXPECT_NEAR(gradient(i + 1, j + 1), expected(i, j), 5e-6) << far;
  }
}

// Logits of nodes that fall apart into blocks, and these into blocks again, from either end.
template <int N>
Matrix<double, N> nested_cuts(double far, bool reversed) {
  Matrix<double, N> logits{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      const int first = std::min({i, j, N - 2});
      const double size = i == j ? 0 : -far * (N - 2 - first);
      (reversed ? logits(N - 1 - i, N - 1 - j) : logits(i, j)) = size;
    }
  return logits;
}

TEST(Sinkhorn, FloatImplicitGradientKeepsItsDigitsWhereCutsAreNested) {
  for_sizes<3, 4, 5, 8>([]<int N>() {
    SplitMix64 random(75 + N);
    for (const double far : {6.0, 14.0, 28.0})
      for (const bool reversed : {false, true}) {
        const auto logits = nested_cuts<N>(far, reversed) + 0.3 * normal_matrix<double, N>(random);
        const auto p = sinkhorn(logits, {.iterations = 60, .bound = 0});
        auto cotangent = normal_matrix<double, N>(random);
        Matrix<float, N> p_float{}, cotangent_float{};
        for (int i = 0; i < N; ++i)
          for (int j = 0; j < N; ++j) {
            p_float(i, j) = static_cast<float>(p(i, j));
            cotangent(i, j) = cotangent_float(i, j) = static_cast<float>(cotangent(i, j));
          }
        const auto expected = sinkhorn_backward_implicit(p, p, cotangent, {.bound = 0});
        const auto found =
            sinkhorn_backward_implicit(p_float, p_float, cotangent_float, {.bound = 0});
        for (int i = 0; i < N; ++i)
          for (int j = 0; j < N; ++j)
            EXPECT_NEAR(found(i, j), expected(i, j), 1e-5 * largest_entry(expected))
                << "n " << N << ", far " << far << (reversed ? ", reversed" : "");
      }
  });
}

TEST(Sinkhorn, UnrolledGradientMatchesCentralDifferencesOfTheTruncatedForward) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(80 + N);
    for (const auto& options :
         {SinkhornOptions{.iterations = 1}, SinkhornOptions{.iterations = 2},
          SinkhornOptions{.iterations = 3}, SinkhornOptions{.iterations = 20},
          SinkhornOptions{.iterations = 40, .bound = 0},
          SinkhornOptions{.iterations = 3, .bound = 0, .guard = 0.1},
          SinkhornOptions{.iterations = 1, .bound = 0, .guard = 0.1, .softmax = true},
          SinkhornOptions{.iterations = 3, .bound = 0, .guard = 1e-6, .softmax = true}}) {
      auto logits = normal_matrix<double, N>(random);
      const auto cotangent = normal_matrix<double, N>(random);
      const auto gradient = sinkhorn_backward_unrolled(logits, cotangent, options);
      const auto loss = [&] { return inner(cotangent, sinkhorn(logits, options)); };
      EXPECT_LE(gradient_error(&logits(0, 0), &gradient(0, 0), N * N, loss), 1e-8)
          << "n = " << N << ", " << options.iterations << " iterations, guard " << options.guard;
    }
  });
}

TEST(Sinkhorn, UnrolledGradientDoesNotDependOnItsWindow) {
  SplitMix64 random(100);
  const auto logits = normal_matrix<double, 4>(random),
             cotangent = normal_matrix<double, 4>(random);
  for (const int iterations : {1, 6, 7, 8, 20}) {
    const SinkhornOptions options{.iterations = iterations};
    EXPECT_LE(largest_entry(sinkhorn_backward_unrolled<7>(logits, cotangent, options) -
                            sinkhorn_backward_unrolled<32>(logits, cotangent, options)),
              1e-14);
  }
}

TEST(Sinkhorn, UnrolledAndImplicitGradientsDifferForFewIterationsAndAgreeInTheLimit) {
  SplitMix64 random(110);
  const auto logits = 2.0 * normal_matrix<double, 4>(random);
  const auto cotangent = normal_matrix<double, 4>(random);
  const auto apart = [&](int iterations) {
    const SinkhornOptions options{.iterations = iterations};
    return relative_error(
        sinkhorn_backward_unrolled(logits, cotangent, options),
        sinkhorn_backward_implicit(logits, sinkhorn(logits, options), cotangent, options));
  };
  EXPECT_GT(apart(1), 0.05);
  EXPECT_LT(apart(500), 1e-10);
}

// 87 % of the gradient, root mean square over cotangents; a single cotangent gives 60 % to 400 %.
TEST(Sinkhorn, SixteenGaussSeidelSweepsAreNotEnoughNearIdentity) {
  SplitMix64 random(120);
  const auto logits = identity_logits<double, 4>();
  const auto p = sinkhorn(logits);
  double error = 0, size = 0;
  for (int index = 0; index < 2000; ++index) {
    const auto cotangent = normal_matrix<double, 4>(random);
    const auto exact = sinkhorn_backward_implicit(logits, p, cotangent);
    const auto apart = sinkhorn_backward_gauss_seidel(logits, p, cotangent, 16) - exact;
    error += inner(apart, apart);
    size += inner(exact, exact);
  }
  RecordProperty("relative_error", std::to_string(std::sqrt(error / size)));
  EXPECT_NEAR(std::sqrt(error / size), 0.87, 0.03);
}

TEST(Sinkhorn, GaussSeidelReachesTheDirectSolutionInTheEnd) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(125 + N);
    const auto logits = normal_matrix<double, N>(random),
               cotangent = normal_matrix<double, N>(random);
    const auto p = sinkhorn(logits, kConverged);
    const auto exact = sinkhorn_backward_implicit(logits, p, cotangent);
    const auto found = sinkhorn_backward_gauss_seidel(logits, p, cotangent, 1000);
    EXPECT_LE(largest_entry(found - exact), 1e-12) << "n = " << N;
  });
}

// σ₂(P) = 1 − n e^{−8}/(1 + (n−1) e^{−8}) here, and the error falls by σ₂² a sweep.
TEST(Sinkhorn, GaussSeidelErrorFallsBySigmaTwoSquaredASweep) {
  SplitMix64 random(130);
  const auto logits = identity_logits<double, 4>();
  const auto p = sinkhorn(logits);
  const auto cotangent = normal_matrix<double, 4>(random);
  const auto exact = sinkhorn_backward_implicit(logits, p, cotangent);
  const auto error = [&](int sweeps) {
    return relative_error(sinkhorn_backward_gauss_seidel(logits, p, cotangent, sweeps), exact);
  };
  const double sigma = 1 - 4 * std::exp(-8) / (1 + 3 * std::exp(-8));
  EXPECT_NEAR(std::pow(error(1100) / error(100), 1.0 / 1000), sigma * sigma, 1e-6);
}

// Computed directly in float, I − PᵀP is nothing but rounding for this P; the Laplacian form is
// not.
TEST(Sinkhorn, FloatImplicitGradientKeepsItsDigitsNextToAPermutation) {
  SplitMix64 random(140);
  for (const double depth : {4.0, 8.0, 9.5}) {
    Matrix<double, 4> logits{}, cotangent = normal_matrix<double, 4>(random);
    Matrix<float, 4> p_float{}, logits_float{}, cotangent_float{};
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        logits(i, j) = (j == (i + 1) % 4 ? depth : -depth) + 0.3 * random.normal();
    const SinkhornOptions options{.iterations = 20, .bound = 30};
    const auto p = sinkhorn(logits, options);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        p_float(i, j) = static_cast<float>(p(i, j));
        logits_float(i, j) = static_cast<float>(logits(i, j));
        cotangent(i, j) = cotangent_float(i, j) = static_cast<float>(cotangent(i, j));
      }
    const auto expected = sinkhorn_backward_implicit(logits, p, cotangent, options);
    const auto found =
        sinkhorn_backward_implicit(logits_float, p_float, cotangent_float, {.bound = 30});
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        EXPECT_NEAR(found(i, j), expected(i, j), 1e-5 * largest_entry(expected)) << depth;
  }
}

TEST(Sinkhorn, NotANumberAndInfinityEndAndShow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  Matrix<double, 3> logits{{{nan, 0, 1}, {0, 1, 2}, {1, 2, 3}}}, cotangent{};
  EXPECT_TRUE(std::isnan(largest_entry(sinkhorn(logits))));
  EXPECT_TRUE(std::isnan(largest_entry(sinkhorn_backward_unrolled(logits, cotangent))));
  EXPECT_TRUE(
      std::isnan(largest_entry(sinkhorn_backward_implicit(logits, sinkhorn(logits), cotangent))));
  logits(0, 0) = infinity;  // the clamp makes it 10
  EXPECT_LE(worst_row_sum(transpose(sinkhorn(logits))), 1e-12);
}

}  // namespace
}  // namespace geores::manifold
