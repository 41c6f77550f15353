#include "lab/diagnostics/recursion_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "geores/model/recursive/recursive.h"
#include "geores/modules/seeding.h"

namespace geores {
namespace {

Recursive small_model(const std::string& mixer) {
  RecursiveOptions options{.width = 8,
                           .streams = 3,
                           .heads = 2,
                           .layers = 2,
                           .expansion = 1,
                           .mlp_multiple = 2,
                           .prefix = 1,
                           .h_cycles = 2,
                           .l_cycles = 2,
                           .act_steps = 2,
                           .hidden = 4};
  options.mixer = mixer;
  if (options.mixes()) options.layout = "expand";
  return with_seed(5, [&] {
    Recursive model(options, {.length = 6, .width = 1, .vocabulary = 5});
    model.to(torch::kFloat64);
    return model;
  });
}

Tensor puzzles() {
  return with_seed(6, [] { return torch::randint(0, 5, {2, 6}, torch::kInt64); });
}

std::optional<RecursionReport> report_of(const std::string& mixer) {
  auto model = small_model(mixer);
  return describe_recursion(model, puzzles());
}

TEST(RecursionReport, HasACallForEachConnectionOfEachApplication) {
  for (const auto* mixer : {"cayley_exact", "identity"}) {
    const auto report = report_of(mixer);
    ASSERT_TRUE(report) << mixer;
    EXPECT_EQ(report->norm.size(), 2u * 3 * 2 * 2) << mixer;
    EXPECT_EQ(report->product.size(), report->norm.size());
    for (const auto value : report->norm) EXPECT_NEAR(value, 1, 1e-9) << mixer;
    for (const auto value : report->product) EXPECT_NEAR(value, 1, 1e-9) << mixer;
    EXPECT_TRUE(report->gate.empty());
  }
  EXPECT_FALSE(report_of("none")) << "a plain residual has no mixer";
}

TEST(RecursionReport, ProductsOfDoublyStochasticMixersShrinkFromCallToCall) {
  const auto report = report_of("sinkhorn");
  ASSERT_TRUE(report);
  for (const auto value : report->norm) EXPECT_NEAR(value, 1, 1e-3);
  EXPECT_TRUE(std::ranges::is_sorted(report->product, std::greater<>()));
  EXPECT_LT(report->product.back(), report->product.front() - 0.01);  // they start close to I
}

TEST(RecursionReport, TellsTheGates) {
  const auto report = report_of("edelta");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->gate.size(), report->norm.size());
  auto model = small_model("edelta");
  Trace trace(/*probing=*/true);
  model.predict(puzzles(), trace);
  size_t call = 0;
  for (const auto& [name, values] : trace.probes()) {
    if (name != "gamma") continue;
    EXPECT_NEAR(report->gate.at(call++), values.mean().item<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace geores
