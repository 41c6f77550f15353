#include "geores/manifold/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/solve.h"
#include "geores/manifold/algebra/svd.h"

namespace geores::manifold {
namespace {

template <int N>
std::vector<int> as_vector(const Permutation<N>& permutation) {
  return {permutation.to, permutation.to + N};
}

std::vector<double> random_logits(int count, SplitMix64& random) {
  std::vector<double> logits(count);
  for (double& logit : logits) logit = 2 * random.normal();
  return logits;
}

template <int N>
void expect_doubly_stochastic(const Matrix<double, N>& h) {
  for (int i = 0; i < N; ++i) {
    double row = 0, column_sum = 0;
    for (int j = 0; j < N; ++j) {
      EXPECT_GE(h(i, j), 0.0);
      row += h(i, j);
      column_sum += h(j, i);
    }
    EXPECT_NEAR(row, 1.0, 1e-12);
    EXPECT_NEAR(column_sum, 1.0, 1e-12);
  }
}

TEST(Permutation, EnumerationIsLexicographicCompleteAndStartsWithTheIdentity) {
  for_sizes<1, 2, 3, 4, 6>([]<int N>() {
    std::set<std::vector<int>> seen;
    for (int index = 0; index < factorial(N); ++index) {
      const auto permutation = as_vector(nth_permutation<N>(index));
      EXPECT_TRUE(seen.empty() || *seen.rbegin() < permutation);
      EXPECT_EQ(std::set<int>(permutation.begin(), permutation.end()).size(), std::size_t(N));
      seen.insert(permutation);
    }
    EXPECT_EQ(seen.size(), std::size_t(factorial(N)));
    EXPECT_EQ(*seen.begin(), as_vector(identity_permutation<N>()));
  });
  static_assert(nth_permutation<3>(5)[0] == 2);
}

TEST(Permutation, MatrixPicksTheEntryThatThePermutationNames) {
  const Permutation<3> cycle{{1, 2, 0}};
  const auto y = cycle.matrix<double>() * Vector<double, 3>{{10, 20, 30}};
  EXPECT_EQ(y[0], 20);
  EXPECT_EQ(y[1], 30);
  EXPECT_EQ(y[2], 10);
}

TEST(Permutation, JpmhcSetHoldsIdentityTranspositionsShiftsAndASeededOne) {
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    const JpmhcPermutations<N> set(7), same(7);
    for (int m = 0; m < set.count; ++m) {
      const auto permutation = as_vector(set[m]);
      EXPECT_EQ(std::set<int>(permutation.begin(), permutation.end()).size(), std::size_t(N));
      EXPECT_EQ(permutation, as_vector(same[m]));
    }
    EXPECT_EQ(as_vector(set[0]), as_vector(identity_permutation<N>()));
    const auto one = identity<double, N>();
    const auto matrix = [&](int m) { return set[m].template matrix<double>(); };
    EXPECT_EQ(largest_entry(matrix(1) * matrix(1) - one), 0.0);
    EXPECT_EQ(largest_entry(matrix(2) * matrix(2) - one), 0.0);
    EXPECT_EQ(largest_entry(matrix(3) * matrix(4) - one), 0.0);
    if (N > 1) {
      EXPECT_EQ(determinant(matrix(1)), -1.0);
      EXPECT_EQ(determinant(matrix(2)), -1.0);
      EXPECT_EQ(set[3][N - 1], 0);
    }
  });
  std::set<std::vector<int>> drawn;
  for (int seed = 0; seed < 200; ++seed) drawn.insert(as_vector(JpmhcPermutations<4>(seed)[5]));
  EXPECT_EQ(drawn.size(), 19u);  // of 24, five are in the set already
}

TEST(Permutation, JpmhcSetRepeatsNoneFromThreeStreamsOn) {
  for_sizes<3, 4, 7>([]<int N>() {
    for (int seed = 0; seed < 300; ++seed) {
      const JpmhcPermutations<N> set(seed);
      std::set<std::vector<int>> all;
      for (int m = 0; m < set.count; ++m) all.insert(as_vector(set[m]));
      ASSERT_EQ(all.size(), 6u) << "n = " << N << ", seed " << seed;
    }
  });
}

TEST(PermutationMixture, IsDoublyStochasticWithSpectralNormOne) {
  for_sizes<1, 2, 3, 4, 6>([]<int N>() {
    SplitMix64 random(N);
    const auto logits = random_logits(factorial(N), random);
    const auto h = permutation_mixture<N>(logits.data(), AllPermutations<N>{});
    expect_doubly_stochastic(h);
    EXPECT_NEAR(spectral_norm(h), 1.0, 1e-12);
    EXPECT_LE(std::abs(determinant(h)), 1 + 1e-12);
  });
  for_sizes<1, 2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto h = permutation_mixture<N>(random_logits(6, random).data(), JpmhcPermutations<N>(3));
    expect_doubly_stochastic(h);
    EXPECT_LE(std::abs(determinant(h)), 1 + 1e-12);
  });
}

TEST(PermutationMixture, EqualsTheWeightedSumOfPermutationMatrices) {
  SplitMix64 random(4);
  const auto logits = random_logits(24, random);
  double sum = 0;
  Matrix<double, 4> expected{};
  for (const double logit : logits) sum += std::exp(logit);
  for (int m = 0; m < 24; ++m)
    expected = expected + (std::exp(logits[m]) / sum) * nth_permutation<4>(m).matrix<double>();
  const auto found = permutation_mixture<4>(logits.data(), AllPermutations<4>{});
  EXPECT_LE(largest_entry(found - expected), 1e-14);
}

TEST(PermutationMixture, MinusEightEverywhereButTheIdentityIsNearlyTheIdentity) {
  std::vector<double> logits(24, -8);
  logits[0] = 0;
  const auto h = permutation_mixture<4>(logits.data(), AllPermutations<4>{});
  EXPECT_LT(largest_entry(h - identity<double, 4>()), 0.008);
}

TEST(PermutationMixture, HugeLogitsDoNotOverflow) {
  const float logits[] = {3e38f, -3e38f};
  const auto h = permutation_mixture<2>(logits, AllPermutations<2>{});
  EXPECT_EQ(largest_entry(h - identity<float, 2>()), 0.0f);
}

TEST(PermutationMixture, GradientMatchesCentralDifferences) {
  for_sizes<2, 3, 4, 5>([]<int N>() {
    SplitMix64 random(20 + N);
    auto logits = random_logits(factorial(N), random);
    const auto cotangent = normal_matrix<double, N>(random);
    std::vector<double> gradient(logits.size());
    const AllPermutations<N> set;
    permutation_mixture_backward(logits.data(), set, cotangent, gradient.data());
    const auto loss = [&] { return inner(cotangent, permutation_mixture<N>(logits.data(), set)); };
    EXPECT_LE(gradient_error(logits.data(), gradient.data(), factorial(N), loss), 1e-7);
  });
  for_sizes<2, 4, 7, 8>([]<int N>() {
    SplitMix64 random(40 + N);
    auto logits = random_logits(6, random);
    const auto cotangent = normal_matrix<double, N>(random);
    std::vector<double> gradient(6);
    const JpmhcPermutations<N> set(9);
    permutation_mixture_backward(logits.data(), set, cotangent, gradient.data());
    const auto loss = [&] { return inner(cotangent, permutation_mixture<N>(logits.data(), set)); };
    EXPECT_LE(gradient_error(logits.data(), gradient.data(), 6, loss), 1e-7);
  });
}

}  // namespace
}  // namespace geores::manifold
