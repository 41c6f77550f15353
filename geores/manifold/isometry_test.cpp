#include "geores/manifold/isometry.h"

#include <gtest/gtest.h>

#include "geores/manifold/algebra/eigen.h"
#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"

namespace geores::manifold {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr IsometryFactor kFactors[] = {IsometryFactor::reflections, IsometryFactor::unitary,
                                       IsometryFactor::cayley};
constexpr int kMost = 3;               // factors in a row
constexpr int kCapacity = 28 * kMost;  // generators of three Cayley factors on 8 streams

template <int N>
bool exists(IsometryFactor factor) {
  return N % 2 == 0 || factor != IsometryFactor::unitary;
}

void draw(SplitMix64& random, double* raw, double scale) {
  for (int i = 0; i < kCapacity; ++i) raw[i] = scale * random.normal();
}

TEST(Isometry, IsOrthogonalWithDeterminantOneForGeneratorsOfAnySize) {
  for_sizes<2, 3, 4, 8>([]<int N>() {
    for (const auto factor : kFactors)
      for (const double scale : {0.0, 1e-30, 1e-3, 1.0, 1e3})
        for (int count = 1; count <= kMost; ++count) {
          if (!exists<N>(factor)) continue;
          SplitMix64 random(N + static_cast<unsigned>(count));
          double raw[kCapacity];
          draw(random, raw, scale);
          const auto g = isometry<double, N>(factor, raw, count);
          EXPECT_LE(orthogonality_defect(g), 1e-11) << static_cast<int>(factor) << " " << scale;
          EXPECT_NEAR(determinant(g), 1.0, 1e-11) << static_cast<int>(factor) << " " << scale;
        }
  });
}

TEST(Isometry, BackwardEqualsFiniteDifferences) {
  for_sizes<2, 3, 4, 8>([]<int N>() {
    for (const auto factor : kFactors)
      for (int count = 1; count <= kMost; ++count) {
        if (!exists<N>(factor)) continue;
        SplitMix64 random(100 + N);
        double raw[kCapacity], gradient[kCapacity];
        draw(random, raw, 0.7);
        const auto s = normal_matrix<double, N>(random);
        isometry_backward<double, N>(factor, raw, count, s, gradient);
        const auto loss = [&] { return inner(s, isometry<double, N>(factor, raw, count)); };
        EXPECT_LE(gradient_error(raw, gradient, count * generators_of(factor, N), loss), 1e-8)
            << static_cast<int>(factor) << " n " << N << " factors " << count;
      }
  });
}

TEST(Reflections, TwoAcrossEachOtherTurnTheirPlaneByPi) {
  const double raw[] = {2, 0, 0, 0, /**/ 0, 3, 0, 0};
  const auto g = isometry<double, 4>(IsometryFactor::reflections, raw, 1);
  const double diagonal[] = {-1, -1, 1, 1};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) EXPECT_EQ(g(i, j), i == j ? diagonal[i] : 0.0);
}

TEST(Reflections, TurnByTwiceTheAngleBetweenTheirVectors) {
  const double angle = 0.3;
  const double raw[] = {1, 0, 0, cosine(angle), sine(angle), 0};
  const auto g = isometry<double, 3>(IsometryFactor::reflections, raw, 1);
  EXPECT_NEAR(trace(g), 1 + 2 * cosine(2 * angle), 1e-14);
}

TEST(Unitary, IsTheIdentityAtPhaseZeroAndNegatesItsPlaneAtPi) {
  for_sizes<2, 4, 8>([]<int N>() {
    SplitMix64 random(N);
    const auto k = normalise(normal_vector<double, N>(random)).direction;
    EXPECT_EQ(largest_entry(complex_reflection(k, 0.0) - identity<double, N>()), 0.0);
    const auto half = complex_reflection(k, kPi);
    EXPECT_LE(largest_entry(half * k + k), 1e-14);
    EXPECT_LE(largest_entry(half * times_i(k) + times_i(k)), 1e-14);
  });
}

TEST(Unitary, CommutesWithMultiplicationByI) {
  SplitMix64 random(3);
  const auto k = normalise(normal_vector<double, 8>(random)).direction;
  const auto x = normal_vector<double, 8>(random);
  const auto g = complex_reflection(k, 1.234);
  EXPECT_LE(largest_entry(g * times_i(x) - times_i(g * x)), 1e-14);
}

TEST(Unitary, MultipliesItsVectorByThePhase) {
  SplitMix64 random(4);
  const auto k = normalise(normal_vector<double, 4>(random)).direction;
  const double phase = 0.9;
  const auto expected = cosine(phase) * k + sine(phase) * times_i(k);
  EXPECT_LE(largest_entry(complex_reflection(k, phase) * k - expected), 1e-15);
}

}  // namespace
}  // namespace geores::manifold
