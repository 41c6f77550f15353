// Tables of how runs learned, from folders made by hand.
#include "geores/experiments/language/learning.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/base/file.h"
#include "geores/experiments/language/language_tables.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// A run of 100 steps of 8 × 16 tokens, clipped at 1.
std::string run_with(const fs::path& folder, const std::string& metrics) {
  fs::create_directories(folder);
  write_file_atomically(folder / "config.json", R"({"steps": 100, "batch": 8, "clip": 1.0})");
  write_file_atomically(folder / "model.json", R"({"data": {"length": 16}})");
  write_file_atomically(folder / "metrics.jsonl", metrics);
  return folder.string();
}

std::string validation_lines(const std::vector<LossAt>& losses) {
  std::string text;
  for (const auto& one : losses)
    text += nlohmann::json{{"step", one.step}, {"validation", one.loss}}.dump() + "\n";
  return text;
}

ExperimentFindings depth_findings(const std::vector<std::string>& columns) {
  ExperimentFindings depth;
  depth.experiment.name = "depth";
  depth.experiment.arms = {{"pre", "pre-norm", {}}, {"mgt", "MGT", {}}};
  for (const auto& name : columns) {
    depth.experiment.columns.push_back({name, name, {}});
    for (const auto& arm : depth.experiment.arms) depth.cells[name][arm.name] = {};
  }
  return depth;
}

TEST(Learning, ALossIsReachedBetweenTwoEvaluations) {
  const std::vector<LossAt> losses = {{0, 9}, {10, 5}, {20, 4}, {30, 4.5}};
  EXPECT_EQ(first_step_with(losses, 4.25), 17.5);
  EXPECT_EQ(first_step_with(losses, 9), 0);
  EXPECT_EQ(first_step_with(losses, 4), 20);
  EXPECT_FALSE(first_step_with(losses, 3.9).has_value());
  EXPECT_EQ(nearest_to(losses, 14).step, 10);
  EXPECT_EQ(nearest_to(losses, 16).loss, 4);
}

// Evaluations need not be spread evenly: the last one of a training often follows another at once.
TEST(Learning, TheTargetIsTheLossAfterHalfTheStepsAndSeedsThatReachItAreCounted) {
  const TemporaryFolder folder;
  auto depth = depth_findings({"L12", "L24"});
  const auto add = [&](const std::string& column, const std::string& arm, int seed,
                       const std::vector<LossAt>& losses) {
    const auto name = column + arm + std::to_string(seed);
    depth.cells[column][arm].runs.push_back(
        run_with(folder.path() / name, validation_lines(losses)));
  };
  // In the middle of the list stands step 70; nearest to half of 100 steps is 48.
  add("L24", "pre", 1, {{0, 9}, {48, 5}, {70, 4}, {96, 3}, {100, 3}});
  add("L24", "pre", 2, {{0, 9}, {48, 6}, {70, 4}, {96, 3}, {100, 3}});
  add("L24", "mgt", 1, {{0, 9}, {100, 6}});
  add("L12", "mgt", 1, {{0, 9}, {20, 6}, {40, 5}});  // 5.5 after 30 steps
  add("L12", "mgt", 2, {{0, 9}, {20, 6}, {60, 5}});  // after 40
  add("L12", "mgt", 3, {{0, 9}, {20, 6}});
  const auto table = target_table(depth);
  EXPECT_NE(table.explanation.find("loss of 5.500, which pre-norm with L24 has after 48 steps"),
            std::string::npos)
      << table.explanation;
  using Row = std::vector<std::string>;
  ASSERT_EQ(table.rows.size(), 3u);
  // 35 steps of 128 tokens are 0.00448M.
  EXPECT_EQ(table.rows[0], (Row{"MGT", "L12", "0.004 ± 0.001M", "2 of 3"}));
  EXPECT_EQ(table.rows[1][0], "pre-norm");
  EXPECT_EQ(table.rows[1][3], "2 of 2");
  EXPECT_EQ(table.rows[2], (Row{"MGT", "L24", "not reached", "0 of 1"}));
}

TEST(Learning, GradientNormsAreOfAllStepsAndSeeds) {
  const TemporaryFolder folder;
  const auto norms = [](int from) {
    std::string text;
    for (int i = from; i < 301; i += 2)
      text += nlohmann::json{{"step", i}, {"grad_norm", i / 200.0}}.dump() + "\n";
    return text;
  };
  // 0, 0.005, ..., 1.5 in two runs.
  CellFindings cell;
  cell.runs = {run_with(folder.path() / "a", norms(0)), run_with(folder.path() / "b", norms(1))};
  const auto found = norms_of_gradients(cell);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->median, 0.75, 1e-12);
  EXPECT_NEAR(found->high, 1.485, 1e-12);
  EXPECT_NEAR(found->most, 1.5, 1e-12);
  EXPECT_NEAR(found->clipped, 100.0 / 301, 1e-12) << "1.005 to 1.5";
  EXPECT_FALSE(norms_of_gradients({}).has_value());
}

}  // namespace
}  // namespace geores
