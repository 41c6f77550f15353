#include "geores/manifold/spectral_sphere.h"

#include <gtest/gtest.h>

#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/for_sizes.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/algebra/svd.h"
#include "geores/manifold/cayley_general.h"

namespace geores::manifold {
namespace {

template <int M>
Matrix<double, M> random_rotation(SplitMix64& random) {
  const auto b = normal_matrix<double, M>(random);
  return cayley_transform(b - transpose(b));
}

template <int M>
Vector<double, M> random_sigma(SplitMix64& random) {
  Vector<double, M> sigma{};
  for (int i = 0; i < M; ++i) sigma[i] = hyperbolic_tangent(random.normal());
  return sigma;
}

template <int N>
Matrix<double, N> random_member(SplitMix64& random) {
  const auto u = random_rotation<N - 1>(random), v = random_rotation<N - 1>(random);
  return spectral_sphere(u, random_sigma<N - 1>(random), v);
}

template <int N>
void expect_member(const Matrix<double, N>& h, double tolerance) {
  Vector<double, N> ones{};
  for (int i = 0; i < N; ++i) ones[i] = 1;
  EXPECT_LE(largest_entry(h * ones - ones), tolerance);
  EXPECT_LE(largest_entry(transpose(h) * ones - ones), tolerance);
  EXPECT_NEAR(spectral_norm(h), 1.0, tolerance);
}

TEST(HelmertBasis, IsOrthonormalAndAcrossTheMean) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    const auto basis = helmert_basis<double, N>();
    EXPECT_LE(orthogonality_defect(basis), 1e-12);
    for (int j = 0; j + 1 < N; ++j) {
      double sum = 0;
      for (int i = 0; i < N; ++i) sum += basis(i, j);
      EXPECT_NEAR(sum, 0.0, 1e-12);
    }
  });
}

TEST(SpectralSphere, RowsAndColumnsSumToOneAndTheNormIsOne) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    SplitMix64 random(N);
    for (int index = 0; index < 50; ++index) expect_member(random_member<N>(random), 1e-12);
  });
}

TEST(SpectralSphere, SingularValuesAreOneAndTheGivenOnes) {
  SplitMix64 random(5);
  const auto u = random_rotation<3>(random), v = random_rotation<3>(random);
  const auto sigma = singular_values(spectral_sphere(u, {{0.9, -0.5, 0.2}}, v));
  const double expected[] = {1, 0.9, 0.5, 0.2};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(sigma[i], expected[i], 1e-12);
}

TEST(SpectralSphere, IsClosedUnderTwoHundredProducts) {
  for_sizes<2, 3, 4, 8>([]<int N>() {
    SplitMix64 random(30 + N);
    auto product = random_member<N>(random);
    for (int index = 1; index < 200; ++index) product = product * random_member<N>(random);
    expect_member(product, 1e-12);
  });
  // With every |σ| = 1 nothing decays, so 200 products would show any rounding error.
  SplitMix64 random(60);
  auto product = identity<double, 4>();
  for (int index = 0; index < 200; ++index) {
    const auto u = random_rotation<3>(random), v = random_rotation<3>(random);
    product = product * spectral_sphere(u, {{1, -1, 1}}, v);
  }
  expect_member(product, 1e-12);
  EXPECT_LE(orthogonality_defect(product), 1e-12);
}

TEST(SpectralSphere, NoSkewAndUnitSigmaIsTheIdentityAndTanhFourIsNotQuite) {
  const auto one = identity<double, 3>();
  EXPECT_LE(largest_entry(spectral_sphere(one, {{1, 1, 1}}, one) - identity<double, 4>()), 1e-12);
  const double start = hyperbolic_tangent(4.0);
  const double off =
      largest_entry(spectral_sphere(one, {{start, start, start}}, one) - identity<double, 4>());
  EXPECT_NEAR(off, 0.75 * (1 - start), 1e-12);
  EXPECT_NEAR(start, 0.99933, 1e-5);
}

TEST(SpectralSphere, AllowsNegativeEntries) {
  const auto one = identity<double, 3>();
  const auto h = spectral_sphere(one, {{-1, -1, -1}}, one);
  EXPECT_NEAR(h(0, 0), 2.0 / 4 - 1, 1e-12);
}

TEST(SpectralSphere, GradientMatchesCentralDifferences) {
  for_sizes<2, 3, 4, 7, 8>([]<int N>() {
    constexpr int M = N - 1;
    SplitMix64 random(90 + N);
    auto u = random_rotation<M>(random), v = random_rotation<M>(random);
    auto sigma = random_sigma<M>(random);
    const auto cotangent = normal_matrix<double, N>(random);
    const auto gradient = spectral_sphere_backward(u, sigma, v, cotangent);
    const auto loss = [&] { return inner(cotangent, spectral_sphere(u, sigma, v)); };
    EXPECT_LE(gradient_error(&u(0, 0), &gradient.u(0, 0), M * M, loss), 1e-7);
    EXPECT_LE(gradient_error(&v(0, 0), &gradient.v(0, 0), M * M, loss), 1e-7);
    EXPECT_LE(gradient_error(&sigma[0], &gradient.sigma[0], M, loss), 1e-7);
  });
}

}  // namespace
}  // namespace geores::manifold
