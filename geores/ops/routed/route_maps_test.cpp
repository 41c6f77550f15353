// Routes from projections against their composed definitions: values and all gradients. On a machine
// without a GPU both sides are composed.
#include "geores/ops/routed/route_maps.h"

#include <gtest/gtest.h>

#include <string>

#include "geores/manifold/sigmoid_route.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/kernel_choice.h"

namespace geores {
namespace {

TEST(RouteMaps, TanhRoutesEqualComposed) {
  torch::manual_seed(5);
  for (const auto& [n, length] : {std::pair<int64_t, int64_t>{2, 1}, {4, 33}, {8, 5}, {4, 3000}})
    if (takes_large_sizes() || length < 1000)
      expect_fused_equals_composed(
          {random({2, length, n, n + 2}), random({1}), random({1}), random({n}), random({n, n}),
           random({n})},
          [](const Tensors& t) {
            const auto routes = tanh_routes(t[0], {t[1], t[2], t[3], t[4], t[5]});
            return Tensors{routes.res, routes.read, routes.write};
          },
          "n " + std::to_string(n), 1e-4);
}

TEST(RouteMaps, SigmoidRoutesEqualComposed) {
  torch::manual_seed(5);
  for (const int64_t rest : {0, 6, 16, 24})
    for (const double offset : {0.0, 0.25})
      expect_fused_equals_composed(
          {random({2, 33, 8 + rest})},
          [offset](const Tensors& t) {
            const auto routes = sigmoid_routes(t[0], 4, offset);
            return Tensors{routes.read, routes.write, routes.others};
          },
          "rest " + std::to_string(rest));
}

TEST(RouteMaps, RunFusedOnAGpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  Explanation explanation;
  auto explained = execution();
  explained.explanation = &explanation;
  const ExecutionScope scope(explained);
  const auto like = torch::TensorOptions().device(gpu());
  const auto one = torch::ones({1}, like), four = torch::ones({4}, like);
  tanh_routes(torch::randn({2, 3, 4, 6}, like), {one, one, four, torch::eye(4, like), four});
  sigmoid_routes(torch::randn({2, 3, 24}, like), 4, 0);
  ASSERT_EQ(explanation.lines().size(), 2u);
  for (const auto& line : explanation.lines()) EXPECT_EQ(line.missing, "") << line.operation;
}

TEST(RouteMaps, SigmoidRoutesAreThoseOfTheScalars) {
  torch::manual_seed(5);
  const auto raw = 3 * torch::randn({2, 5, 9}, torch::kFloat64);
  const auto [read, write, others] = sigmoid_routes(raw, 3, 0.25);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t i = 0; i < 3; ++i) {
        const auto at = [&](int64_t column) { return raw[b][t][column].item<double>(); };
        EXPECT_NEAR(read[b][t][i].item<double>(), manifold::read_route(at(i)) + 0.25, 1e-15);
        EXPECT_NEAR(write[b][t][i].item<double>(), manifold::write_route(at(3 + i)), 1e-15);
      }
  EXPECT_TRUE(torch::equal(others, raw.slice(-1, 6)));
  EXPECT_EQ(manifold::write_route(0.0), 1.0);
}

}  // namespace
}  // namespace geores
