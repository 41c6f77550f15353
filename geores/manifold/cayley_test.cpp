#include "geores/manifold/cayley.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "geores/manifold/algebra/eigen.h"
#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/cayley_general.h"

namespace geores::manifold {
namespace {

template <int N>
Matrix<double, N> skew_generator(const Vector<double, N>& u, const Vector<double, N>& v) {
  return outer(u, v) - outer(v, u);
}

template <int N>
double area(const Vector<double, N>& u, const Vector<double, N>& v) {
  return rotation_plane(u, v, 1.0).mu;
}

template <class T, int N>
struct Draw {
  Vector<T, N> u, v;
  T beta;
};

// Scales 1e-6..1e6, beta 0 or 1e-8..1e8; every third pair is nearly parallel, some are exactly
// parallel, some zero.
template <class T, int N>
Draw<T, N> extreme_draw(SplitMix64& random, int index) {
  const auto scale = [&](double decades) {
    return std::pow(10.0, random.uniform(-decades, decades));
  };
  const double u_scale = scale(6), v_scale = scale(6), beta = index % 50 == 0 ? 0 : scale(8);
  const double nearness = std::pow(10.0, random.uniform(-20, -1));
  Draw<T, N> draw{};
  for (int i = 0; i < N; ++i) {
    const double u = random.normal(),
                 v = index % 3 == 0 ? u + nearness * random.normal() : random.normal();
    draw.u[i] = static_cast<T>(u_scale * u);
    draw.v[i] = static_cast<T>(v_scale * v);
  }
  if (index % 301 == 0) draw.u = {};
  if (index % 307 == 0) draw.v = {};
  draw.beta = static_cast<T>(beta);
  return draw;
}

template <class T>
T worst_orthogonality_defect(int draws) {
  T worst = 0;
  for_sizes<2, 3, 4, 5, 6, 7, 8>([&]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < draws / 7 + 1; ++index) {
      const auto draw = extreme_draw<T, N>(random, index);
      worst = larger(worst, orthogonality_defect(cayley_rotation(draw.u, draw.v, draw.beta)));
    }
  });
  return worst;
}

TEST(Cayley, FloatIsOrthogonalTo2e6OverAHundredThousandExtremeDraws) {
  const float worst = worst_orthogonality_defect<float>(100'000);
  RecordProperty("defect", std::to_string(worst * 1e6f) + "e-6");
  EXPECT_LE(worst, 2e-6f);
}

TEST(Cayley, DoubleIsOrthogonalTo1e14OverAHundredThousandExtremeDraws) {
  const double worst = worst_orthogonality_defect<double>(100'000);
  RecordProperty("defect", std::to_string(worst * 1e15) + "e-15");
  EXPECT_LE(worst, 1e-14);
}

TEST(Cayley, EqualsTheGeneralSolveWhereThatIsWellConditioned) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(11 + N);
    for (int index = 0; index < 2000; ++index) {
      auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
      if (index % 3 == 0) v = u + std::pow(10.0, random.uniform(-16, 0)) * v;
      const double beta = random.uniform(0, 10);
      const auto expected = cayley_transform((beta / 2) * skew_generator(u, v));
      ASSERT_LE(largest_entry(cayley_rotation(u, v, beta) - expected), 1e-12) << "n = " << N;
    }
  });
}

// The generator A is of a size at which a solve in double keeps 1e-12; only the closed form sees
// the extreme scales of u, v and β.
TEST(Cayley, ScalesOfUAndVAndBetaTradeAgainstEachOther) {
  SplitMix64 random(3);
  for (int index = 0; index < 2000; ++index) {
    const auto u = normal_vector<double, 4>(random), v = normal_vector<double, 4>(random);
    const double a = std::pow(10.0, random.uniform(-150, 150));
    const double b = std::pow(10.0, random.uniform(-150, 150));
    ASSERT_LE(
        largest_entry(cayley_rotation(a * u, b * v, 2.0 / a / b) - cayley_rotation(u, v, 2.0)),
        1e-12);
  }
}

TEST(Cayley, FloatAgreesWithDoubleOnTheSameNumbers) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(70 + N);
    for (int index = 0; index < 5000; ++index) {
      const auto draw = extreme_draw<float, N>(random, index);
      Vector<double, N> u{}, v{};
      for (int i = 0; i < N; ++i) u[i] = draw.u[i], v[i] = draw.v[i];
      const auto expected = cayley_rotation<double, N>(u, v, draw.beta);
      const auto q = cayley_rotation(draw.u, draw.v, draw.beta);
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) ASSERT_NEAR(q(i, j), expected(i, j), 3e-6) << "n = " << N;
    }
  });
}

template <class T>
void expect_identity_for_degenerate_pairs() {
  const Vector<T, 4> u{{T(1.7), T(-0.3), T(2.9), T(0.11)}}, zero{};
  const auto is_identity = [](const Vector<T, 4>& a, const Vector<T, 4>& b, T beta) {
    return largest_entry(cayley_rotation(a, b, beta) - identity<T, 4>()) == T(0);
  };
  EXPECT_TRUE(is_identity(zero, u, T(1e8)));
  EXPECT_TRUE(is_identity(u, zero, T(1e8)));
  EXPECT_TRUE(is_identity(zero, zero, T(1e8)));
  EXPECT_TRUE(is_identity(u, u, T(1e8)));
  EXPECT_TRUE(is_identity(u, T(-4) * u, T(1e8)));
  EXPECT_TRUE(is_identity(T(1e6) * u, T(1e6) * u, T(1e8)));
  EXPECT_TRUE(is_identity(u, {{T(0.5), T(2), T(-1), T(3)}}, T(0)));
}

TEST(Cayley, DegeneratePairsGiveExactlyTheIdentity) {
  expect_identity_for_degenerate_pairs<float>();
  expect_identity_for_degenerate_pairs<double>();
}

// (k + 1)² − k(k + 2) = 1: the pair spans a unit area, but its two products agree in every bit of
// T. So the plain difference of the rounded products finds a parallel pair or noise.
template <class T>
void expect_quarter_turn_of_a_nearly_parallel_pair(T k) {
  const Vector<T, 2> u{{k + 1, k}}, v{{k + 2, k + 1}};
  EXPECT_NEAR(rotation_plane(u, v, T(2)).mu, 1.0, 4 * Precision<T>::epsilon);
  const auto q = cayley_rotation(u, v, T(2));  // ω = 1, θ = π/2
  EXPECT_LE(largest_entry(q - Matrix<T, 2>{{{0, -1}, {1, 0}}}), 8 * Precision<T>::epsilon);
}

TEST(Cayley, NearlyParallelPairLosesNothing) {
  expect_quarter_turn_of_a_nearly_parallel_pair(0x1p16f);
  expect_quarter_turn_of_a_nearly_parallel_pair(0x1p30);
}

TEST(Cayley, DeterminantIsPlusOne) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(5 + N);
    for (int index = 0; index < 1000; ++index) {
      const auto draw = extreme_draw<double, N>(random, index);
      ASSERT_NEAR(determinant(cayley_rotation(draw.u, draw.v, draw.beta)), 1.0, 1e-12);
    }
  });
}

TEST(Cayley, GeneratorCubedIsMinusMuSquaredTimesItself) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(6 + N);
    for (int index = 0; index < 200; ++index) {
      const auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
      const auto a = skew_generator(u, v);
      const double mu = area(u, v);
      ASSERT_LE(largest_entry(a * a * a + (mu * mu) * a), 1e-12 * (1 + mu * mu * mu));
    }
  });
}

TEST(Cayley, IsIdentityMinusTwiceMMinusMSquaredOverOnePlusOmegaSquared) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(7 + N);
    for (int index = 0; index < 500; ++index) {
      const auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
      const double beta = random.uniform(0, 3), omega = beta / 2 * area(u, v);
      const auto m = (beta / 2) * skew_generator(u, v);
      const auto expected = identity<double, N>() - (2 / (1 + omega * omega)) * (m - m * m);
      ASSERT_LE(largest_entry(cayley_rotation(u, v, beta) - expected), 1e-12);
    }
  });
}

TEST(Cayley, EigenvaluesAreTheRotationPairAndOnesNeverMinusOne) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(8 + N);
    for (int index = 0; index < 300; ++index) {
      const auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
      const double beta = std::pow(10.0, random.uniform(-2, 2));
      const double theta = 2 * std::atan(beta * area(u, v) / 2);
      const auto found = eigenvalues(cayley_rotation(u, v, beta));
      ASSERT_TRUE(found.converged);
      // Each eigenvalue is e^{iθ}, e^{−iθ} or 1, and both of the first two occur.
      double nearest_plus = 9, nearest_minus = 9;
      int ones = 0;
      for (int i = 0; i < N; ++i) {
        const double re = found.real[i], im = found.imaginary[i];
        const double plus = std::hypot(re - std::cos(theta), im - std::sin(theta));
        const double minus = std::hypot(re - std::cos(theta), im + std::sin(theta));
        const double one = std::hypot(re - 1, im);
        nearest_plus = std::min(nearest_plus, plus);
        nearest_minus = std::min(nearest_minus, minus);
        ones += one < 1e-12;
        ASSERT_LT(std::min({plus, minus, one}), 1e-12) << "n = " << N;
        ASSERT_GT(std::hypot(re + 1, im), 1e-6);
      }
      ASSERT_LT(std::max(nearest_plus, nearest_minus), 1e-12);
      ASSERT_GE(ones, N - 2);
    }
  });
}

TEST(Cayley, BetaMuEqualToTwiceTheTangentOfHalfAnAngleTurnsByThatAngle) {
  SplitMix64 random(9);
  const auto u = normal_vector<double, 4>(random), v = normal_vector<double, 4>(random);
  for (const double theta :
       {-3.1415926, -3.14, -2.0, -1e-7, 0.0, 1e-3, 1.0, 2.5, 3.14, 3.1415926}) {
    const double beta = 2 * std::tan(theta / 2) / area(u, v);
    const auto plane = rotation_plane(u, v, beta);
    const auto turned = cayley_rotation(u, v, beta) * plane.e1;
    EXPECT_NEAR(dot(turned, plane.e1), std::cos(theta), 1e-12) << theta;
    EXPECT_NEAR(dot(turned, plane.e2), std::sin(theta), 1e-12) << theta;
  }
  EXPECT_GT(2 * std::tan(3.14 / 2), 2500);  // an angle of 3.14 needs βμ = 2512
  EXPECT_LT(2 * std::tan(3.14 / 2), 2525);
}

TEST(Cayley, ResolventIsHalfOfIdentityPlusQ) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(10 + N);
    const auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
    const auto x = normal_vector<double, N>(random);
    const auto plane = rotation_plane(u, v, 0.7);
    const auto half = 0.5 * (identity<double, N>() + cayley_rotation(plane));
    EXPECT_LE(largest_entry(cayley_resolvent(plane, x) - half * x), 1e-13);
    EXPECT_LE(largest_entry(cayley_resolvent(plane, x, true) - transpose(half) * x), 1e-13);
  });
}

template <int N>
double rotation_gradient_error(Vector<double, N> u, Vector<double, N> v, double beta,
                               SplitMix64& random, double step = 1e-3) {
  const auto cotangent = normal_matrix<double, N>(random);
  const auto gradient = cayley_rotation_backward(u, v, beta, cotangent);
  double parameters[2 * N + 1], expected[2 * N + 1];
  for (int i = 0; i < N; ++i) {
    parameters[i] = u[i], parameters[N + i] = v[i];
    expected[i] = gradient.u[i], expected[N + i] = gradient.v[i];
  }
  parameters[2 * N] = beta, expected[2 * N] = gradient.beta;
  const auto loss = [&] {
    for (int i = 0; i < N; ++i) u[i] = parameters[i], v[i] = parameters[N + i];
    return inner(cotangent, cayley_rotation(u, v, parameters[2 * N]));
  };
  return gradient_error(parameters, expected, 2 * N + 1, loss, step);
}

TEST(Cayley, GradientMatchesCentralDifferences) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(20 + N);
    for (int index = 0; index < 50; ++index) {
      const auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
      const double beta = random.uniform(0.1, 2);
      ASSERT_LE(rotation_gradient_error(u, v, beta, random), 1e-7) << "n = " << N;
    }
  });
}

TEST(Cayley, GradientMatchesCentralDifferencesAtParallelAndZeroPairs) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(40 + N);
    const auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
    EXPECT_LE(rotation_gradient_error(u, 2.0 * u, 0.9, random), 1e-7);
    EXPECT_LE(rotation_gradient_error(u, -1.0 * u, 0.9, random), 1e-7);
    EXPECT_LE(rotation_gradient_error(u, u + 1e-9 * v, 0.9, random), 1e-7);
    EXPECT_LE(rotation_gradient_error(u, {}, 0.9, random), 1e-7);
    EXPECT_LE(rotation_gradient_error({}, v, 0.9, random), 1e-7);
    EXPECT_LE(rotation_gradient_error<N>({}, {}, 0.9, random), 1e-7);
    EXPECT_LE(rotation_gradient_error(u, v, 0.0, random), 1e-7);
    EXPECT_LE(rotation_gradient_error(u, v, -0.8, random), 1e-7);
  });
}

TEST(Cayley, GradientMatchesCentralDifferencesNearAHalfTurn) {
  for_sizes<2, 3, 4, 8>([]<int N>() {
    SplitMix64 random(60 + N);
    const auto u = normal_vector<double, N>(random), v = normal_vector<double, N>(random);
    EXPECT_LE(rotation_gradient_error(u, v, 1000.0, random, 1e-4), 1e-7) << "n = " << N;
  });
}

// At ω = 1e20 the plain formula −½(I+Q)ᵀS(I+Q)ᵀ in float returns rounding noise times β|v| = 1e14.
TEST(Cayley, FloatGradientAgreesWithDoubleOverExtremeDraws) {
  for_sizes<2, 3, 4, 8>([]<int N>() {
    SplitMix64 random(90 + N);
    for (int index = 0; index < 5000; ++index) {
      const auto draw = extreme_draw<float, N>(random, index);
      const auto cotangent = normal_matrix<float, N>(random);
      Vector<double, N> u{}, v{};
      Matrix<double, N> cotangent_in_double{};
      for (int i = 0; i < N; ++i) {
        u[i] = draw.u[i], v[i] = draw.v[i];
        for (int j = 0; j < N; ++j) cotangent_in_double(i, j) = cotangent(i, j);
      }
      const auto found = cayley_rotation_backward(draw.u, draw.v, draw.beta, cotangent);
      const auto expected =
          cayley_rotation_backward<double, N>(u, v, draw.beta, cotangent_in_double);
      const double du = largest_entry(expected.u), dv = largest_entry(expected.v);
      for (int i = 0; i < N; ++i) {
        ASSERT_NEAR(found.u[i], expected.u[i], 1e-3 * du) << "n = " << N << " draw " << index;
        ASSERT_NEAR(found.v[i], expected.v[i], 1e-3 * dv) << "n = " << N << " draw " << index;
      }
      ASSERT_TRUE(std::isfinite(found.beta));
    }
  });
}

TEST(Cayley, NotANumberInGivesNotANumberOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Vector<double, 3> fine{{1, 2, 3}};
  const Vector<double, 3> all_nan{{nan, nan, nan}}, one_nan{{1, nan, 2}},
      infinite{{1, infinity, 2}};
  for (const auto& broken : {all_nan, one_nan, infinite}) {
    EXPECT_TRUE(std::isnan(largest_entry(cayley_rotation(broken, fine, 1.0))));
    EXPECT_TRUE(std::isnan(largest_entry(cayley_rotation(fine, broken, 1.0))));
  }
  EXPECT_TRUE(std::isnan(largest_entry(cayley_rotation(fine, {{0, 1, 0}}, nan))));
  EXPECT_LE(orthogonality_defect(cayley_rotation(fine, {{0, 1, 0}}, infinity)), 1e-14);
}

TEST(CayleyTransform, TurnsSkewMatricesIntoRotations) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(100 + N);
    const auto b = normal_matrix<double, N>(random);
    const auto q = cayley_transform(b - transpose(b));
    EXPECT_LE(orthogonality_defect(q), 1e-12);
    EXPECT_NEAR(determinant(q), 1.0, 1e-12);
  });
}

TEST(CayleyTransform, GradientMatchesCentralDifferencesForAnyMatrix) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(120 + N);
    auto m = 0.1 * normal_matrix<double, N>(random);  // not skew: the formula holds for every M
    const auto cotangent = normal_matrix<double, N>(random);
    const auto expected = cayley_transform_backward(cayley_transform(m), cotangent);
    const auto loss = [&] { return inner(cotangent, cayley_transform(m)); };
    EXPECT_LE(gradient_error(&m(0, 0), &expected(0, 0), N * N, loss), 1e-7) << "n = " << N;
  });
}

TEST(CayleyTransform, SkewEntriesGradientMatchesCentralDifferences) {
  SplitMix64 random(140);
  double entries[6], expected[6];
  for (double& entry : entries) entry = random.normal();
  const auto cotangent = normal_matrix<double, 4>(random);
  const auto rotation = [&] { return cayley_transform(skew_from_entries<double, 4>(entries)); };
  skew_from_entries_backward(cayley_transform_backward(rotation(), cotangent), expected);
  EXPECT_LE(gradient_error(entries, expected, 6, [&] { return inner(cotangent, rotation()); }),
            1e-7);
}

TEST(CayleyTransform, SingularShiftGivesNotANumber) {
  EXPECT_TRUE(std::isnan(cayley_transform(Matrix<double, 2>{{{-1, 0}, {0, 3}}})(0, 0)));
}

}  // namespace
}  // namespace geores::manifold
