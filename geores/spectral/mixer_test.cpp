#include "geores/spectral/mixer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/spectral/algebra/decompositions.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

using Eigen::MatrixXd;

double orthogonality_defect(const MatrixXd& q) {
  return (product(q.transpose(), q) - MatrixXd::Identity(q.cols(), q.cols())).norm();
}

double operator_norm(const MatrixXd& a) {
  return std::sqrt(symmetric_eigenvalues(product(a.transpose(), a)).maxCoeff());
}

void expect_sums_are_one(const MatrixXd& a, const char* name) {
  EXPECT_LT((a.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-12) << name;
  EXPECT_LT((a.colwise().sum().array() - 1).abs().maxCoeff(), 1e-12) << name;
}

TEST(Mixer, KeepsTheConstraintOfItsKind) {
  for (const int n : {1, 2, 3, 4, 7, 8}) {
    const MatrixXd identity = MatrixXd::Identity(n, n);
    EXPECT_EQ(draw_mixer(Mixer::identity, n, 1), identity);
    const auto bistochastic = draw_mixer(Mixer::bistochastic, n, 1);
    expect_sums_are_one(bistochastic, "bistochastic");
    EXPECT_GT(bistochastic.minCoeff(), 0);
    EXPECT_NEAR(operator_norm(bistochastic), 1, 1e-12);
    EXPECT_LT(orthogonality_defect(draw_mixer(Mixer::orthogonal, n, 1)), 1e-13);
    const auto permutation = draw_mixer(Mixer::permutation, n, 1);
    expect_sums_are_one(permutation, "permutation");
    EXPECT_GE(permutation.minCoeff(), 0);
    const auto shc = draw_mixer(Mixer::shc, n, 1);
    expect_sums_are_one(shc, "shc");
    EXPECT_NEAR(operator_norm(shc), 1, 1e-12);
    const auto projector = draw_mixer(Mixer::grassmann, n, 1);
    EXPECT_LT((product(projector, projector) - projector).norm(), 1e-13);
    EXPECT_NEAR(projector.trace(), std::max(1, n / 2), 1e-13);
  }
}

TEST(Mixer, ShcIsClosedUnderProducts) {
  MatrixXd all = MatrixXd::Identity(4, 4);
  for (int l = 0; l < 200; ++l) all = product(draw_mixer(Mixer::shc, 4, 2, l), all);
  expect_sums_are_one(all, "product");
  EXPECT_NEAR(operator_norm(all), 1, 1e-12);
}

TEST(Mixer, CayleyDefectFollowsTheExactFormulaForTwoSteps) {
  // YᵀY − I = −M⁴/4 − M⁶/16 with M = αW; W is what zero steps show: Y₀ = I + αW.
  const MatrixXd identity = MatrixXd::Identity(4, 4);
  const MatrixXd m = draw_mixer(Mixer::cayley, 4, 5, 0, 0) - identity;
  const MatrixXd y = draw_mixer(Mixer::cayley, 4, 5);
  const MatrixXd m2 = product(m, m), m4 = product(m2, m2);
  EXPECT_LT((product(y.transpose(), y) - identity + m4 / 4 + product(m4, m2) / 16).norm(), 1e-14);
  EXPECT_LT(orthogonality_defect(draw_mixer(Mixer::cayley, 4, 5, 0, 40)), 1e-13);
}

TEST(Mixer, DependsOnSeedAndLayerOnly) {
  EXPECT_EQ(draw_mixer(Mixer::gaussian, 4, 7, 3), draw_mixer(Mixer::gaussian, 4, 7, 3));
  EXPECT_NE(draw_mixer(Mixer::gaussian, 4, 7, 3), draw_mixer(Mixer::gaussian, 4, 7, 4));
  EXPECT_NE(draw_mixer(Mixer::gaussian, 4, 7, 3), draw_mixer(Mixer::gaussian, 4, 8, 3));
}

TEST(Mixer, TheSameSeedGivesTheSameNumbersOnEveryMachine) {
  // Stored once; the explorer's tests compare them with the browser's build.
  const auto a = draw_mixer(Mixer::gaussian, 2, 1);
  EXPECT_NEAR(a(0, 0), 0.0095906656706085964, 1e-15);
  EXPECT_NEAR(a(1, 1), 0.12351039965235357, 1e-15);
  EXPECT_NEAR(draw_mixer(Mixer::permutation, 4, 1)(0, 0), 0.70993645087011159, 1e-15);
}

TEST(Mixer, WithoutStreamsIsRefused) {
  EXPECT_EQ(refusal([] { draw_mixer(Mixer::identity, 0, 1); }),
            "[mixer] streams must be >= 1, got 0");
}

}  // namespace
}  // namespace geores::spectral
