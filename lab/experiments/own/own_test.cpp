#include <gtest/gtest.h>

#include <cmath>

#include "geores/base/file.h"
#include "geores/model/transformer/parameter_budget.h"
#include "geores/model/transformer/transformer_kind.h"
#include "geores/testing/testing.h"
#include "lab/experiments/own/contrasts.h"
#include "lab/experiments/reproduce.h"

namespace geores {
namespace {

const Experiment& own(const std::string& name) {
  for (const auto& experiment : own_experiments())
    if (experiment.name == name) return experiment;
  fail("test", "no experiment {}", name);
}

TransformerConfig model_of(const Experiment& experiment, const std::string& arm,
                           const char* scale = "paper") {
  const auto config =
      run_config(experiment.columns[0], experiment.arm(arm), 1, scale_from(scale), {});
  return transformer_config(config.model.options, {.length = 8, .width = 16, .vocabulary = 0});
}

TEST(Own, EveryArmIsAModelAtBothScales) {
  for (const auto& experiment : own_experiments())
    for (const auto& arm : experiment.arms)
      for (const auto* scale : {"quick", "paper"}) {
        auto model = model_of(experiment, arm.name, scale);
        model.layers = 1;
        EXPECT_NO_THROW(Transformer{model}) << experiment.name << " " << arm.name << " " << scale;
      }
}

TEST(Own, NamesAreDistinctAndCombinationsComplete) {
  std::set<std::string> experiments;
  for (const auto& experiment : own_experiments()) {
    EXPECT_TRUE(experiments.insert(experiment.name).second) << experiment.name;
    std::set<std::string> arms, cells;
    for (const auto& arm : experiment.arms) {
      EXPECT_TRUE(arms.insert(arm.name).second) << experiment.name << " " << arm.name;
      EXPECT_EQ(arm.row.empty(), !experiment.two_way()) << arm.name;
      if (experiment.two_way()) {
        EXPECT_TRUE(cells.insert(arm.row + "|" + arm.way).second) << arm.name;
      }
    }
  }
}

// Six blocks with maps and eight without have the same number of weights, except for the norms.
TEST(Own, PlainAndMappedModelsHaveAsManyParameters) {
  const auto& explain = own("explain");
  const auto count = [&](const char* arm) {
    return static_cast<double>(parameter_budget(model_of(explain, arm)).total());
  };
  EXPECT_NEAR(count("plain") / count("maps_small"), 1, 0.001);
  EXPECT_NEAR(count("plain") / count("small_fast"), 1, 1e-12);
  for (const auto& arm : own("start_maps").arms)
    EXPECT_LE(parameter_budget(model_of(own("start_maps"), arm.name)).total(), 1840000) << arm.name;
}

ExperimentFindings made_up(const Experiment& experiment, double factor) {
  ExperimentFindings findings{experiment, {}, {}};
  double value = 1e-3;
  for (const auto& column : experiment.columns) {
    for (const auto& arm : experiment.arms) {
      findings.cells[column.name][arm.name].best = {value, 1.1 * value, 0.9 * value};
      value *= factor;
    }
    findings.baselines[column.name] = {{"copy", 1.0}};
  }
  return findings;
}

TEST(Contrasts, CompareAlongRowsAndAlongWays) {
  Experiment experiment{.name = "x",
                        .title = "x",
                        .text = "",
                        .columns = {{"c", "data", {}}},
                        .arms = {{"a1", "a, 1", {}, {}, "a", "1"},
                                 {"a2", "a, 2", {}, {}, "a", "2"},
                                 {"b1", "b, 1", {}, {}, "b", "1"},
                                 {"b2", "b, 2", {}, {}, "b", "2"}}};
  const auto contrasts = contrasts_of(made_up(experiment, 0.1));
  ASSERT_EQ(contrasts.size(), 4u);
  std::string pairs;
  for (const auto& one : contrasts) pairs += one.first + " < " + one.second + "; ";
  EXPECT_EQ(pairs, "a, 2 < a, 1; b, 2 < b, 1; b, 1 < a, 1; b, 2 < a, 2; ");
  EXPECT_NEAR(contrasts[0].ratio, 10, 1e-9);
  EXPECT_NEAR(contrasts[2].ratio, 100, 1e-7);
  EXPECT_EQ(contrasts[0].pairs, 1.0);
  EXPECT_GT(contrasts[0].test.t, 0);
  EXPECT_LT(contrasts[0].test.p, 0.001);

  const auto table = two_way_table(made_up(experiment, 0.1), experiment.columns[0]);
  EXPECT_EQ(table.heads, (std::vector<std::string>{"", "1", "2"}));
  EXPECT_EQ(table.rows[1][0], "b");
  EXPECT_EQ(table.rows[1][1], "1.00 ± 0.10 e-05");
}

TEST(Contrasts, AListOfArmsIsComparedWithItsFirst) {
  Experiment experiment{.name = "x",
                        .title = "x",
                        .text = "",
                        .columns = {{"c", "data", {}}},
                        .arms = {{"a", "a", {}}, {"b", "b", {}}, {"c", "c", {}}}};
  const auto contrasts = contrasts_of(made_up(experiment, 1.0));
  ASSERT_EQ(contrasts.size(), 2u);
  EXPECT_EQ(contrasts[1].first, "c");
  EXPECT_EQ(contrasts[1].second, "a");
  EXPECT_NEAR(contrasts[1].ratio, 1, 1e-12);
  EXPECT_EQ(contrasts[1].pairs, 0.5);
  EXPECT_NEAR(contrasts[1].test.p, 1, 1e-9);
}

TEST(Statistics, ShareOfPairsCountsTiesHalf) {
  EXPECT_EQ(share_of_pairs({1, 2}, {3, 4}), 1.0);
  EXPECT_EQ(share_of_pairs({1, 2}, {2, 2}), 0.75);
  EXPECT_TRUE(std::isnan(share_of_pairs({}, {1})));
}

TEST(Reproduce, SomeModelsOnSomeDataOfAnOwnExperiment) {
  const TemporaryFolder folder;
  ReproduceOptions options{.out = folder.path().string(),
                           .scale = {.name = "tiny",
                                     .width_divisor = 16,
                                     .depth_divisor = 9,
                                     .gyroscope_sequences = 12,
                                     .train_sequences = 12,
                                     .validation_sequences = 6,
                                     .length = 9,
                                     .steps = 4,
                                     .batch = 2,
                                     .eval_batches = 1,
                                     .chosen_seeds = {1, 2}},
                           .only = {"start_maps"},
                           .columns = {"near_pi"},
                           .arms = {"gpt", "gpt_small", "hc_small"}};
  reproduce(options);
  const auto results = nlohmann::json::parse(read_text_file(folder.path() / "results.json"));
  const auto& columns = results.at("experiments").at(0).at("columns");
  ASSERT_EQ(columns.size(), 1u);
  EXPECT_EQ(columns[0].at("arms").size(), 3u);
  EXPECT_EQ(results.at("experiments").at(0).at("contrasts").size(), 2u);
  const auto markdown = read_text_file(folder.path() / "tables.md");
  for (const auto* arm : {"gpt", "gpt_small", "hc_small"})
    EXPECT_NE(markdown.find("| " + own("start_maps").arm(arm).label + " |"), markdown.npos) << arm;
  EXPECT_NE(markdown.find("(figures/start_maps.svg)"), markdown.npos);

  options.arms = {"gtp"};
  EXPECT_NE(refusal([&] { reproduce(options); }).find("start_maps has none of"), std::string::npos);
}

}  // namespace
}  // namespace geores
