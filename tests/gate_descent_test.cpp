// The explorer's scalar AdamW (manifold/gate_descent.h) against the optimiser that trains the models.
#include <gtest/gtest.h>

#include <cmath>

#include "geores/manifold/gate_descent.h"
#include "geores/modules/layers.h"
#include "geores/train/optimizer/adamw.h"

namespace geores {
namespace {

TEST(GateDescent, ScalarAdamWIsTheOptimisersStep) {
  const manifold::GateForces<double> forces{0.5, 0.05};
  const manifold::AdamWRates<double> rates;
  auto linear = make_linear(1, 1, false);  // one weight of rank 2: it decays
  linear->to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    linear->weight.fill_(-1.5);
  }
  FlatParameters flat(*linear);
  AdamW adamw(flat, {.beta1 = rates.first_decay,
                     .beta2 = rates.second_decay,
                     .epsilon = rates.epsilon,
                     .weight_decay = rates.weight_decay,
                     .clip = 0});
  double logit = -1.5;
  manifold::AdamWMoments<double> moments;
  for (int step = 0; step < 300; ++step) {
    flat.collect_gradients(1, [&](int64_t) {
      const auto gamma = torch::sigmoid(linear->weight);
      (forces.penalty_weight * 4 * gamma * (1 - gamma) + forces.task_slope * gamma)
          .sum()
          .backward();
    });
    adamw.step(rates.rate);
    logit = manifold::adamw_step(logit, manifold::gate_logit_slope(logit, forces), moments, rates);
    ASSERT_NEAR(linear->weight.item<double>(), logit, 1e-12) << "step " << step;
  }
  EXPECT_LT(logit, -1.6);  // it went somewhere
}

}  // namespace
}  // namespace geores
