#include "geores/manifold/hybrid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/algebra/solve.h"
#include "geores/manifold/algebra/svd.h"

namespace geores::manifold {
namespace {

template <int N>
HybridGenerators<double, N> random_generators(SplitMix64& random) {
  return {normal_vector<double, N>(random), normal_vector<double, N>(random),
          normalise(normal_vector<double, N>(random)).direction, random.uniform(0.1, 3),
          random.uniform(0, 1)};
}

TEST(Hybrid, OrthogonalityDefectIsFourGammaOneMinusGamma) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 200; ++index) {
      const auto p = random_generators<N>(random);
      const auto g = hybrid_operator(p);
      ASSERT_NEAR(spectral_norm(transpose(g) * g - identity<double, N>()), gate_penalty(p.gamma),
                  1e-12);
    }
  });
}

TEST(Hybrid, SmallestSingularValueIsTwoGammaMinusOneAndNoneExceedsOne) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(30 + N);
    for (int index = 0; index < 200; ++index) {
      auto p = random_generators<N>(random);
      if (index < 3) p.gamma = 0.5 * index;
      const auto sigma = singular_values(hybrid_operator(p));
      ASSERT_NEAR(sigma[N - 1], std::abs(2 * p.gamma - 1), 1e-12);
      ASSERT_LE(sigma[0], 1 + 1e-12);
    }
  });
}

TEST(Hybrid, RotationTransposedTimesReflectionHasDeterminantMinusOneAndEigenvalueMinusOne) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(60 + N);
    const auto p = random_generators<N>(random);
    const auto product = transpose(cayley_rotation(p.u, p.v, p.beta)) * householder(p.k);
    EXPECT_NEAR(determinant(product), -1.0, 1e-12);
    EXPECT_NEAR(determinant(product + identity<double, N>()), 0.0, 1e-12);
  });
}

TEST(Hybrid, ShrinksByGammaOneMinusGammaTimesTheDisagreement) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(90 + N);
    for (int index = 0; index < 200; ++index) {
      const auto p = random_generators<N>(random);
      const auto x = normal_vector<double, N>(random);
      const auto gx = hybrid_operator(p) * x;
      const auto apart = cayley_rotation(p.u, p.v, p.beta) * x - householder(p.k) * x;
      ASSERT_NEAR(dot(gx, gx) - dot(x, x), -p.gamma * (1 - p.gamma) * dot(apart, apart), 1e-12);
    }
  });
}

TEST(Hybrid, GateAtOneIsTheRotationAndAtZeroTheReflection) {
  SplitMix64 random(7);
  auto p = random_generators<4>(random);
  p.gamma = 1;
  EXPECT_EQ(largest_entry(hybrid_operator(p) - cayley_rotation(p.u, p.v, p.beta)), 0.0);
  p.gamma = 0;
  EXPECT_EQ(largest_entry(hybrid_operator(p) - householder(p.k)), 0.0);
}

TEST(Hybrid, GradientMatchesCentralDifferences) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(120 + N);
    for (int index = 0; index < 20; ++index) {
      auto p = random_generators<N>(random);
      if (index == 0) p.v = 3.0 * p.u;
      if (index == 1) p.u = {};
      const auto cotangent = normal_matrix<double, N>(random);
      const auto gradient = hybrid_operator_backward(p, cotangent);
      const auto loss = [&] { return inner(cotangent, hybrid_operator(p)); };
      if (N > 1) {
        ASSERT_LE(gradient_error(&p.u[0], &gradient.u[0], N, loss), 1e-7);
        ASSERT_LE(gradient_error(&p.v[0], &gradient.v[0], N, loss), 1e-7);
        ASSERT_LE(gradient_error(&p.beta, &gradient.beta, 1, loss), 1e-7);
      }
      ASSERT_LE(gradient_error(&p.k[0], &gradient.k[0], N, loss), 1e-7);
      ASSERT_LE(gradient_error(&p.gamma, &gradient.gamma, 1, loss), 1e-7);
    }
  });
}

TEST(GatePenalty, HasNoSlopeAtOneHalf) {
  EXPECT_EQ(gate_penalty_slope(0.5), 0.0);
  double gamma = 0.3;
  const double slope = gate_penalty_slope(gamma);
  EXPECT_LE(gradient_error(&gamma, &slope, 1, [&] { return gate_penalty(gamma); }), 1e-10);
}

// γ = σ(b), b ← b − η dL/db: b = 0 stays for ever, and b = ±1e-6 moves away to the side where it
// started.
TEST(GatePenalty, DescentMovesTheGateAwayFromOneHalf) {
  const auto gate = [](double bias) { return 1 / (1 + std::exp(-bias)); };
  const auto descend = [&](double bias) {
    for (int step = 0; step < 5000; ++step)
      bias -= 0.1 * gate_penalty_slope(gate(bias)) * gate(bias) * (1 - gate(bias));
    return gate(bias);
  };
  EXPECT_EQ(descend(0), 0.5);
  EXPECT_GT(descend(1e-6), 0.99);
  EXPECT_LT(descend(-1e-6), 0.01);
}

}  // namespace
}  // namespace geores::manifold
