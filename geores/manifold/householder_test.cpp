#include "geores/manifold/householder.h"

#include <gtest/gtest.h>

#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/algebra/solve.h"

namespace geores::manifold {
namespace {

template <int N>
Vector<double, N> unit_vector(SplitMix64& random) {
  return normalise(normal_vector<double, N>(random)).direction;
}

TEST(Householder, IsAnInvolution) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto h = householder(unit_vector<N>(random));
    EXPECT_LE(largest_entry(h * h - identity<double, N>()), 1e-12);
    EXPECT_LE(orthogonality_defect(h), 1e-12);
  });
}

TEST(Householder, HasDeterminantMinusOne) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    EXPECT_NEAR(determinant(householder(unit_vector<N>(random))), -1.0, 1e-12);
  });
}

TEST(Householder, ReversesItsVectorAndKeepsWhatIsAcross) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto k = unit_vector<N>(random);
    auto across = normal_vector<double, N>(random);
    across = across - dot(k, across) * k;
    EXPECT_LE(largest_entry(householder(k) * k + k), 1e-12);
    EXPECT_LE(largest_entry(householder(k) * across - across), 1e-12);
  });
}

TEST(DeltaOperator, GramMatrixIsIdentityPlusBetaSquaredMinusTwoBeta) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto k = unit_vector<N>(random);
    for (const double beta : {-0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 5.0}) {
      const auto h = delta_operator(k, beta);
      const auto expected = identity<double, N>() + (beta * beta - 2 * beta) * outer(k, k);
      EXPECT_LE(largest_entry(transpose(h) * h - expected), 1e-12) << beta;
    }
  });
}

TEST(DeltaOperator, HasDeterminantOneMinusBeta) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto k = unit_vector<N>(random);
    for (const double beta : {-0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 5.0})
      EXPECT_NEAR(determinant(delta_operator(k, beta)), 1 - beta, 1e-12) << beta;
  });
}

TEST(DeltaOperator, ChangesTheSquaredNormOnlyAlongK) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto k = unit_vector<N>(random), x = normal_vector<double, N>(random);
    for (const double beta : {-0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 5.0}) {
      const auto y = delta_operator(k, beta) * x;
      const double along = dot(k, x);
      EXPECT_NEAR(dot(y, y), dot(x, x) + (beta * beta - 2 * beta) * along * along, 1e-12 * 100);
      EXPECT_LE(largest_entry(apply_delta(k, beta, x) - y), 1e-12) << beta;
    }
  });
}

TEST(DeltaOperator, GradientMatchesCentralDifferences) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    auto k = unit_vector<N>(random);
    double beta = 1.3;
    const auto cotangent = normal_matrix<double, N>(random);
    const auto gradient = delta_operator_backward(k, beta, cotangent);
    const auto loss = [&] { return inner(cotangent, delta_operator(k, beta)); };
    EXPECT_LE(gradient_error(&k[0], &gradient.k[0], N, loss), 1e-7);
    EXPECT_LE(gradient_error(&beta, &gradient.beta, 1, loss), 1e-7);
  });
}

TEST(Normalise, GradientMatchesCentralDifferences) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    auto x = normal_vector<double, N>(random);
    const auto cotangent = normal_vector<double, N>(random);
    const auto gradient = normalise_backward(normalise(x), cotangent);
    const auto loss = [&] { return dot(cotangent, normalise(x).direction); };
    EXPECT_LE(gradient_error(&x[0], &gradient[0], N, loss), 1e-7);
  });
}

TEST(Normalise, HoldsAtTheEndsOfTheFloatRange) {
  for (const float scale : {1e-44f, 1e-38f, 1e-20f, 1.0f, 1e20f, 1e38f}) {
    const auto [direction, length] = normalise(Vector<float, 3>{{scale, -scale, scale}});
    EXPECT_NEAR(dot(direction, direction), 1.0f, 1e-6f) << scale;
    EXPECT_NEAR(length / scale, 1.7320508f, 0.3f) << scale;
  }
  const auto [direction, length] = normalise(Vector<float, 3>{});
  EXPECT_EQ(length, 0.0f);
  EXPECT_EQ(largest_entry(direction), 0.0f);
}

}  // namespace
}  // namespace geores::manifold
