#include "geores/manifold/grassmann.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "geores/manifold/algebra/finite_difference.h"
#include "geores/manifold/algebra/random.h"

namespace geores::manifold {
namespace {

// Calls body.template operator()<n, p>() for p = n/2 and the neighbouring shapes.
template <class Body>
void for_shapes(const Body& body) {
  body.template operator()<1, 1>();
  body.template operator()<2, 1>();
  body.template operator()<3, 1>();
  body.template operator()<4, 2>();
  body.template operator()<7, 3>();
  body.template operator()<8, 4>();
  body.template operator()<4, 4>();
}

template <int N>
Matrix<double, N> symmetric(SplitMix64& random) {
  const auto a = normal_matrix<double, N>(random);
  return a + transpose(a);
}

TEST(Qr, FactorsAreOrthonormalAndTriangularWithAPositiveDiagonal) {
  for_shapes([]<int N, int P>() {
    SplitMix64 random(N);
    for (int index = 0; index < 50; ++index) {
      const auto a = normal_matrix<double, N, P>(random);
      const auto [q, r] = qr(a);
      ASSERT_LE(orthogonality_defect(q), 1e-14);
      ASSERT_LE(largest_entry(q * r - a), 1e-13);
      for (int i = 0; i < P; ++i) {
        ASSERT_GT(r(i, i), 0.0);
        for (int j = 0; j < i; ++j) ASSERT_EQ(r(i, j), 0.0);
      }
    }
  });
}

TEST(Qr, LeavesAnOrthonormalMatrixAsItIs) {
  for_shapes([]<int N, int P>() {
    SplitMix64 random(N);
    const auto q = qr(normal_matrix<double, N, P>(random)).q;
    EXPECT_LE(largest_entry(qr(q).q - q), 1e-14);
  });
}

TEST(Qr, IsOrthonormalForRankDeficientAndZeroMatrices) {
  EXPECT_LE(orthogonality_defect(qr(Matrix<double, 4, 2>{}).q), 1e-14);
  const Matrix<double, 4, 2> same{{{1, 1}, {2, 2}, {-3, -3}, {0.5, 0.5}}};
  EXPECT_LE(orthogonality_defect(qr(same).q), 1e-14);
}

TEST(Grassmann, HorizontalProjectionIsAcrossTheSubspaceAndIdempotent) {
  for_shapes([]<int N, int P>() {
    SplitMix64 random(N);
    const auto u = qr(normal_matrix<double, N, P>(random)).q;
    const auto h = horizontal_projection(u, normal_matrix<double, N, P>(random));
    EXPECT_LE(largest_entry(transpose(u) * h), 1e-14);
    EXPECT_LE(largest_entry(horizontal_projection(u, h) - h), 1e-14);
  });
}

// For horizontal M̂ the direction W of the Cayley curve satisfies WU = M̂, so the curve starts along
// M̂.
TEST(Grassmann, RetractionStartsAlongItsDirection) {
  for_shapes([]<int N, int P>() {
    SplitMix64 random(20 + N);
    const auto u = qr(normal_matrix<double, N, P>(random)).q;
    const auto direction = horizontal_projection(u, normal_matrix<double, N, P>(random));
    const double rate = 1e-4;
    const auto forth = cayley_retraction(u, direction, rate, 2);
    const auto back = cayley_retraction(u, direction, -rate, 2);
    EXPECT_LE(largest_entry((0.5 / rate) * (forth - back) - direction), 1e-6);
  });
}

// Two passes follow the exact Cayley curve to third order in the rate.
TEST(Grassmann, RetractionApproachesTheExactCayleyCurve) {
  SplitMix64 random(30);
  const auto u = qr(normal_matrix<double, 4, 2>(random)).q;
  const auto direction = horizontal_projection(u, normal_matrix<double, 4, 2>(random));
  const auto apart = [&](double rate) {
    return largest_entry(cayley_retraction(u, direction, rate, 2) -
                         cayley_retraction(u, direction, rate, 60));
  };
  EXPECT_GT(apart(0.02), 0.0);
  EXPECT_GT(apart(0.04) / apart(0.02), 7.0);
}

TEST(Grassmann, StepStaysOnTheStiefelManifold) {
  for_shapes([]<int N, int P>() {
    SplitMix64 random(40 + N);
    auto u = qr(normal_matrix<double, N, P>(random)).q;
    GrassmannState<double, N, P> state;
    for (int step = 0; step < 500; ++step) {
      const double scale = std::pow(10.0, random.uniform(-6, 6));
      grassmann_step(u, scale * normal_matrix<double, N, P>(random), state);
      ASSERT_LE(orthogonality_defect(u), 1e-14) << "n = " << N << ", p = " << P;
      ASSERT_LE(largest_entry(transpose(u) * state.momentum), 1e-9 * scale + 1e-3);
    }
    const auto projector = subspace_projector(u);
    EXPECT_LE(largest_entry(projector * projector - projector), 1e-13);
    EXPECT_NEAR(trace(projector), P, 1e-12);
  });
}

// L = −tr(UᵀAU)/2 is least at the p largest eigenvalues of A.
TEST(Grassmann, StepsDescendToTheDominantSubspace) {
  Matrix<double, 4> a{};
  const double eigenvalue[] = {4, 3, 1, 0.5};
  SplitMix64 random(50);
  const auto basis = qr(normal_matrix<double, 4>(random)).q;
  for (int i = 0; i < 4; ++i) a = a + eigenvalue[i] * outer(column(basis, i), column(basis, i));
  auto u = qr(normal_matrix<double, 4, 2>(random)).q;
  const auto loss = [&] { return -0.5 * inner(u, a * u); };
  GrassmannState<double, 4, 2> state;
  const double start = loss();
  for (int step = 0; step < 20; ++step) {
    const double before = loss();
    grassmann_step(u, -1.0 * (a * u), state);
    ASSERT_LT(loss(), before) << step;
  }
  for (int step = 0; step < 3000; ++step) grassmann_step(u, -1.0 * (a * u), state);
  EXPECT_LT(loss(), start);
  EXPECT_NEAR(loss(), -3.5, 1e-3);
}

// UUᵀ does not depend on the basis of the subspace, so the step must not either.
TEST(Grassmann, StepDoesNotDependOnTheBasisOfTheSubspace) {
  SplitMix64 random(60);
  const auto a = symmetric<4>(random);
  auto u = qr(normal_matrix<double, 4, 2>(random)).q;
  auto turned = u * qr(normal_matrix<double, 2>(random)).q;
  GrassmannState<double, 4, 2> state, turned_state;
  for (int step = 0; step < 5; ++step) {
    grassmann_step(u, -1.0 * (a * u), state);
    grassmann_step(turned, -1.0 * (a * turned), turned_state);
  }
  EXPECT_LE(largest_entry(subspace_projector(u) - subspace_projector(turned)), 1e-6);
}

TEST(Grassmann, ProjectorGradientMatchesCentralDifferences) {
  for_shapes([]<int N, int P>() {
    SplitMix64 random(70 + N);
    auto u = normal_matrix<double, N, P>(random);
    const auto cotangent = normal_matrix<double, N>(random);
    const auto gradient = subspace_projector_backward(u, cotangent);
    const auto loss = [&] { return inner(cotangent, subspace_projector(u)); };
    EXPECT_LE(gradient_error(&u(0, 0), &gradient(0, 0), N * P, loss), 1e-7);
  });
}

TEST(Grassmann, NotANumberEndsAndShows) {
  auto u = qr(Matrix<double, 4, 2>{{{1, 0}, {0, 1}, {0, 0}, {0, 0}}}).q;
  GrassmannState<double, 4, 2> state;
  Matrix<double, 4, 2> gradient{};
  gradient(2, 0) = std::numeric_limits<double>::quiet_NaN();
  grassmann_step(u, gradient, state);
  EXPECT_TRUE(std::isnan(largest_entry(u)));
}

TEST(Grassmann, ZeroGradientKeepsThePoint) {
  SplitMix64 random(80);
  const auto start = qr(normal_matrix<double, 4, 2>(random)).q;
  auto u = start;
  GrassmannState<double, 4, 2> state;
  for (int step = 0; step < 10; ++step) grassmann_step(u, {}, state);
  EXPECT_LE(largest_entry(u - start), 1e-13);
}

}  // namespace
}  // namespace geores::manifold
