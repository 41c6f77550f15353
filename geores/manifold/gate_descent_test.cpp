#include "geores/manifold/gate_descent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/manifold/algebra/random.h"

namespace geores::manifold {
namespace {

double after_adamw(double b, const GateForces<double>& forces, int steps) {
  AdamWMoments<double> moments;
  for (int step = 0; step < steps; ++step)
    b = adamw_step(b, gate_logit_slope(b, forces), moments, AdamWRates<double>{});
  return gate_value(b);
}

double after_descent(double b, const GateForces<double>& forces, int steps) {
  for (int step = 0; step < steps; ++step)
    b = descent_step(b, gate_logit_slope(b, forces), 0.1, 0.0);
  return gate_value(b);
}

TEST(GateDescent, SlopeOfTheLogitIsTheDerivativeOfTheLandscape) {
  SplitMix64 random(1);
  for (int i = 0; i < 200; ++i) {
    const GateForces<double> forces{random.uniform(0, 1), random.uniform(-0.5, 0.5)};
    const double b = random.uniform(-3, 3), h = 1e-5;
    const double numeric =
        (gate_landscape(gate_value(b + h), forces) - gate_landscape(gate_value(b - h), forces)) /
        (2 * h);
    EXPECT_NEAR(gate_logit_slope(b, forces), numeric, 1e-9);
  }
}

TEST(GateDescent, MovesAwayFromTheMiddle) {
  // −dL/dγ = 8γ − 4 for λ = 1: downhill from ½ on both sides.
  const GateForces<double> loss{1, 0};
  for (const double gamma : {0.01, 0.3, 0.49, 0.51, 0.8, 0.99})
    EXPECT_NEAR(-gate_slope(gamma, loss), 8 * gamma - 4, 1e-14);
  EXPECT_LT(after_descent(-0.01, loss, 2000), 0.05);
  EXPECT_GT(after_descent(+0.01, loss, 2000), 0.95);
}

TEST(GateDescent, ExactlyInTheMiddleNothingMoves) {
  EXPECT_EQ(after_descent(0, {0.1, 0}, 5000), 0.5);
  EXPECT_EQ(after_adamw(0, {0.1, 0}, 5000), 0.5);
}

TEST(GateDescent, ANudgeOfAMillionthIsEnoughForAdamW) {
  EXPECT_NEAR(after_adamw(1e-6, {0.1, 0}, 2000), 0.917, 5e-4);
  EXPECT_NEAR(after_adamw(-1e-6, {0.1, 0}, 2000), 1 - 0.917, 5e-4);
}

TEST(GateDescent, WithoutATaskTheGateLossAloneReachesTheReportedGate) {
  EXPECT_NEAR(after_adamw(-1.5, {0.5, 0}, 2000), 0.0431, 5e-5);
  EXPECT_NEAR(after_adamw(-1.5, {0.5, 0}, 5000), 0.0097, 5e-5);
}

TEST(GateDescent, WatershedIsWhereTheSlopeIsZero) {
  EXPECT_DOUBLE_EQ(gate_watershed(GateForces<double>{0.1, 0.1}), 0.625);
  EXPECT_NEAR(gate_slope(0.625, GateForces<double>{0.1, 0.1}), 0, 1e-16);
  EXPECT_TRUE(std::isnan(gate_watershed(GateForces<double>{0.1, 0.4})));
  EXPECT_TRUE(std::isnan(gate_watershed(GateForces<double>{0.1, -0.41})));
  EXPECT_TRUE(std::isnan(gate_watershed(GateForces<double>{0, 0.1})));
  // Starts on different sides of the watershed move apart.
  const auto logit = std::log(0.625 / 0.375);
  EXPECT_GT(after_descent(logit + 0.01, {0.1, 0.1}, 20000), 0.9);
  EXPECT_LT(after_descent(logit - 0.01, {0.1, 0.1}, 20000), 0.1);
}

}  // namespace
}  // namespace geores::manifold
