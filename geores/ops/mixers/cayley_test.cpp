#include "geores/ops/mixers/cayley.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/manifold/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/testing/gradient_check.h"

namespace geores {
namespace {

struct Pairs {
  Tensor u, v, beta;
};

// Scales of u and v from 1e-6 to 1e6, β from 0 to 1e8, every third pair nearly parallel.
Pairs draw(int64_t count, int64_t n, torch::ScalarType dtype) {
  const auto scale = [&](double low, double high) {
    return torch::pow(10.0, low + (high - low) * torch::rand({count, 1}, torch::kFloat64));
  };
  auto u = torch::randn({count, n}, torch::kFloat64);
  auto v = torch::randn({count, n}, torch::kFloat64);
  const auto third = (torch::arange(count) % 3 == 0).unsqueeze(-1);
  const auto nearly = u * torch::randn({count, 1}, torch::kFloat64) + scale(-12, -2) * v;
  v = torch::where(third, nearly, v);
  auto beta = scale(-8, 8);
  beta[1] = 0.0;
  return {(u * scale(-6, 6)).to(dtype), (v * scale(-6, 6)).to(dtype), beta.to(dtype)};
}

double orthogonality_defect(const Tensor& q) {
  const auto wide = q.to(torch::kFloat64);
  return (wide.transpose(-1, -2).matmul(wide) - torch::eye(q.size(-1), torch::kFloat64))
      .abs()
      .max()
      .item<double>();
}

TEST(CayleyRotation, IsOrthogonalForEveryScaleAndForNearlyParallelPairs) {
  torch::manual_seed(1);
  for (int64_t n = 2; n <= 8; ++n) {
    const auto f32 = draw(5000, n, torch::kFloat32), f64 = draw(5000, n, torch::kFloat64);
    EXPECT_LE(orthogonality_defect(cayley_rotation(f32.u, f32.v, f32.beta)), 2e-6) << "n = " << n;
    EXPECT_LE(orthogonality_defect(cayley_rotation(f64.u, f64.v, f64.beta)), 1e-14) << "n = " << n;
  }
}

TEST(CayleyRotation, EqualsTheSolve) {
  torch::manual_seed(2);
  for (int64_t n = 2; n <= 8; ++n) {
    const auto u = torch::randn({500, n}, torch::kFloat64);
    const auto v = torch::randn({500, n}, torch::kFloat64);
    const auto beta = 2 * torch::rand({500, 1}, torch::kFloat64);
    const auto m = 0.5 * beta.unsqueeze(-1) * skew(u.unsqueeze(-1) * v.unsqueeze(-2));
    EXPECT_LT((cayley_rotation(u, v, beta) - cayley_solve(m)).abs().max().item<double>(), 1e-12);
  }
}

TEST(CayleyRotation, EqualsTheScalarForm) {
  torch::manual_seed(3);
  const auto u = torch::randn({4}, torch::kFloat64), v = torch::randn({4}, torch::kFloat64);
  const auto beta = torch::tensor({1.7}, torch::kFloat64);
  const auto q = cayley_rotation(u, v, beta);
  manifold::Vector<double, 4> su, sv;
  for (int i = 0; i < 4; ++i) {
    su[i] = u[i].item<double>();
    sv[i] = v[i].item<double>();
  }
  const auto scalar = manifold::cayley_rotation(su, sv, 1.7);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) EXPECT_NEAR(q[i][j].item<double>(), scalar(i, j), 1e-15);
}

TEST(CayleyRotation, ZeroAndParallelPairsGiveTheIdentity) {
  const auto u = torch::tensor({{1.0, 2.0, 3.0}, {0.0, 0.0, 0.0}, {1.0, 2.0, 2.0}, {1.0, 0.0, 0.0}},
                               torch::kFloat64);
  const auto v = torch::tensor(
      {{0.0, 0.0, 0.0}, {1.0, 0.0, 2.0}, {-2.0, -4.0, -4.0}, {0.0, 1.0, 0.0}}, torch::kFloat64);
  const auto beta = torch::tensor({{1.0}, {1.0}, {1e8}, {0.0}}, torch::kFloat64);
  const auto q = cayley_rotation(u, v, beta);
  EXPECT_TRUE(torch::equal(q, torch::eye(3, torch::kFloat64).expand_as(q)));
}

TEST(CayleyRotation, GradientEqualsFiniteDifferencesAlsoWhereThePlaneDegenerates) {
  torch::manual_seed(4);
  for (const int64_t n : {2, 3, 4, 8}) {
    auto u = torch::randn({6, n}, torch::kFloat64), v = torch::randn({6, n}, torch::kFloat64);
    u[1].zero_();             // zero
    v[2].copy_(-1.5 * u[2]);  // parallel
    u[3].zero_();
    v[3].zero_();  // both zero
    auto beta = torch::rand({6, 1}, torch::kFloat64) + 0.2;
    beta[4] = 0.0;
    for (auto* input : {&u, &v, &beta}) input->requires_grad_(true);
    const auto check = check_gradients([&] { return cayley_rotation(u, v, beta); },
                                       {{"u", u}, {"v", v}, {"beta", beta}}, 4);
    EXPECT_LT(check.error, 1e-7) << check.worst << " at n = " << n;
  }
}

// Close to a half turn (I + Q)/2 is only rounding in the plane; the float32 gradient must still
// follow the float64 one.
TEST(CayleyRotation, Float32GradientHoldsCloseToAHalfTurn) {
  torch::manual_seed(9);
  const auto cotangent = torch::randn({200, 4, 4}, torch::kFloat64);
  const auto u0 = torch::randn({200, 4}), v0 = torch::randn({200, 4});
  const auto gradients = [&](torch::ScalarType dtype) {
    auto u = u0.to(dtype).requires_grad_(true), v = v0.to(dtype).requires_grad_(true);
    auto beta = torch::full({200, 1}, 1e4, dtype).requires_grad_(true);
    (cayley_rotation(u, v, beta) * cotangent.to(dtype)).sum().backward();
    return torch::cat({u.grad(), v.grad(), 1e4 * beta.grad()}, -1).to(torch::kFloat64);
  };
  const auto wide = gradients(torch::kFloat64), narrow = gradients(torch::kFloat32);
  const auto error = (narrow - wide).norm(2, -1) / wide.norm(2, -1);
  EXPECT_LT(error.max().item<double>(), 1e-2);
  EXPECT_LT(error.median().item<double>(), 1e-5);
}

TEST(CayleySolve, GradientEqualsFiniteDifferences) {
  torch::manual_seed(5);
  auto w = torch::randn({3, 5, 5}, torch::kFloat64).requires_grad_(true);
  const auto check = check_gradients([&] { return cayley_solve(skew(w)); }, {{"w", w}});
  EXPECT_LT(check.error, 1e-8);
}

TEST(CayleyIterative, DefectAfterTwoIterationsIsTheClosedExpression) {
  torch::manual_seed(6);
  const auto w = skew(torch::randn({20, 4, 4}, torch::kFloat64));
  const auto m = 0.1 * w;
  const auto y = cayley_iterative(w, 0.1, 2);
  const auto m2 = m.matmul(m), m4 = m2.matmul(m2), m6 = m4.matmul(m2);
  const auto defect = y.transpose(-1, -2).matmul(y) - torch::eye(4, torch::kFloat64);
  EXPECT_LT((defect - (-m4 / 4 - m6 / 16)).abs().max().item<double>(), 1e-13);
}

TEST(Hybrid, OrthogonalityDefectIsFourGammaOneMinusGamma) {
  torch::manual_seed(7);
  for (const int64_t n : {2, 3, 4, 7, 8}) {
    const auto g = split_generators(torch::randn({50, 3 * n + 2}, torch::kFloat64), n);
    const auto op = hybrid_operator(g);
    const auto gram = op.transpose(-1, -2).matmul(op) - torch::eye(n, torch::kFloat64);
    const auto expected = (4 * g.gamma * (1 - g.gamma)).squeeze(-1);
    EXPECT_LT((torch::linalg_matrix_norm(gram, 2) - expected).abs().max().item<double>(), 1e-12);
  }
}

TEST(Hybrid, GradientEqualsFiniteDifferences) {
  torch::manual_seed(8);
  auto parameters = torch::randn({5, 14}, torch::kFloat64).requires_grad_(true);
  const auto check = check_gradients(
      [&] { return hybrid_operator(split_generators(parameters, 4)); }, {{"all", parameters}}, 6);
  EXPECT_LT(check.error, 1e-7);
}

TEST(Normalize, LeavesZeroAtZero) {
  EXPECT_EQ(normalize(torch::zeros({2, 3})).abs().max().item<float>(), 0.0f);
}

}  // namespace
}  // namespace geores
