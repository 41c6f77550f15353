#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "geores/puzzles/files/dataset_writer.h"
#include "geores/puzzles/sample_test.h"
#include "geores/puzzles/scoring/plain_scores.h"
#include "geores/puzzles/scoring/reflection_index.h"
#include "geores/puzzles/scoring/scores.h"
#include "geores/puzzles/scoring/vote.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

// Tasks and identifiers of the golden's votes.
ArcTables golden_tables() {
  const auto& vote = golden()["vote"];
  ArcTables tables;
  for (const auto& [task, value] : vote["puzzles"].items()) {
    Group group{.task = task, .subset = "", .train = {}, .test = {}};
    for (const auto& test : value["test"])
      group.test.push_back({grid_from(test["input"]), grid_from(test["output"])});
    tables.groups.push_back(std::move(group));
  }
  for (std::size_t i = 1; i < vote["identifiers"].size(); ++i) {
    const auto [task, variant] = parse_variant(vote["identifiers"][i].get<std::string>(), "golden");
    const auto found = std::ranges::find(tables.groups, task, &Group::task);
    tables.group_of.push_back(static_cast<int32_t>(found - tables.groups.begin()));
    tables.variants.push_back(variant);
  }
  return tables;
}

class GoldenVote : public ::testing::Test {
 protected:
  GoldenVote() {
    for (const auto& row : golden()["vote"]["rows"])
      scores_.add(row["identifier"], tokens_from(row["input"]), tokens_from(row["pred"]),
                  row["q_halt_logit"]);
  }
  ArcTables tables_ = golden_tables();
  ArcScores scores_{tables_, 30};
};

TEST_F(GoldenVote, RankingsAreThoseOfThePublicEvaluator) {
  for (std::size_t g = 0; g < tables_.groups.size(); ++g) {
    const auto& expected = golden()["vote"]["ranking"][tables_.groups[g].task];
    const auto rankings = scores_.rankings(g);
    ASSERT_EQ(rankings.size(), expected.size());
    for (std::size_t i = 0; i < rankings.size(); ++i) {
      ASSERT_EQ(rankings[i].size(), expected[i].size());
      for (std::size_t c = 0; c < rankings[i].size(); ++c) {
        const auto& wanted = expected[i][c];
        const auto& [grid, votes, confidence] = rankings[i][c];
        EXPECT_EQ(votes, wanted["votes"]);
        EXPECT_NEAR(confidence, wanted["mean_q"].get<double>(), 1e-15);
        EXPECT_EQ(grid, grid_from(wanted["grid"]));
        EXPECT_EQ(grid_hash(grid), wanted["sha256"].get<std::string>());
        EXPECT_EQ(grid == tables_.groups[g].test[i].output, wanted["right"]);
      }
    }
  }
}

TEST_F(GoldenVote, BothKindsOfPassAtKAreThoseOfTheGolden) {
  for (const auto& [k, value] : golden()["vote"]["pass_at_k"].items())
    EXPECT_DOUBLE_EQ(scores_.vote_ranked(std::stoll(k)), value) << k;
  for (const auto& [k, value] : golden()["vote"]["unbiased_pass_at_k"].items())
    EXPECT_DOUBLE_EQ(scores_.sampled(std::stoll(k)), value) << k;
  const auto results = scores_.results();
  EXPECT_DOUBLE_EQ(results["pass_at_k"]["2"], 0.5);
  EXPECT_DOUBLE_EQ(results["sampled_pass_at_k"]["1"], 0.29404761904761906);
  EXPECT_EQ(results["tasks"], 5);
  EXPECT_EQ(results["test_inputs"], 6);
  EXPECT_EQ(results["test_inputs_without_predictions"], 1);
  EXPECT_EQ(results["unmatched_predictions"], 0);
}

TEST_F(GoldenVote, SubmissionIsThatOfTheGolden) {
  EXPECT_EQ(scores_.submission(), golden()["vote"]["submission"]);
}

// All subsets of k predictions, one by one.
TEST(SampledPass, IsTheShareOfSubsetsWithARightPrediction) {
  for (int64_t n = 1; n <= 8; ++n)
    for (int64_t c = 0; c <= n; ++c)
      for (int64_t k = 1; k <= 10; ++k) {
        double hits = 0, all = 0;
        for (unsigned subset = 0; subset < 1u << n; ++subset) {
          if (std::popcount(subset) != std::min(k, n)) continue;
          ++all;
          hits += (subset & ((1u << c) - 1)) != 0;
        }
        EXPECT_NEAR(sampled_pass(n, c, k), hits / all, 1e-14) << n << " " << c << " " << k;
      }
  EXPECT_EQ(sampled_pass(0, 0, 5), 0);
}

TEST(Vote, CountsGridsAsTheyAreWrittenOutByHand) {
  Random random({21});
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<Prediction> all;
    for (int i = 0; i < 30; ++i) {
      Grid grid = random_grid(random, 2, 2);
      all.push_back({grid, static_cast<double>(random.below(3)) / 4});
    }
    const auto ranking = rank(all);
    int64_t votes = 0;
    for (std::size_t i = 0; i < ranking.size(); ++i) {
      int64_t count = 0;
      double sum = 0;
      for (const auto& each : all)
        if (each.grid == ranking[i].grid) ++count, sum += each.confidence;
      EXPECT_EQ(ranking[i].votes, count);
      EXPECT_DOUBLE_EQ(ranking[i].mean_confidence, sum / static_cast<double>(count));
      votes += count;
      if (i == 0) continue;
      const auto& before = ranking[i - 1];
      const auto first = [&](const Grid& grid) {
        return std::ranges::find(all, grid, &Prediction::grid) - all.begin();
      };
      EXPECT_TRUE(before.votes > count || (before.votes == count &&
                                           (before.mean_confidence > ranking[i].mean_confidence ||
                                            (before.mean_confidence == ranking[i].mean_confidence &&
                                             first(before.grid) < first(ranking[i].grid)))));
    }
    EXPECT_EQ(votes, 30);
  }
}

TEST(ReflectionIndex, HasAnIntervalAroundItsValue) {
  const TaskScores even{{1, 0, 1, 0}, {1, 0, 1, 0}}, sure{{1, 1, 1}, {0, 0}};
  EXPECT_EQ(reflection_index(sure).value, 1);
  EXPECT_EQ(reflection_index(sure).low, 1);
  const auto interval = reflection_index(even);
  EXPECT_EQ(interval.value, 0);
  EXPECT_LT(interval.low, -0.2);
  EXPECT_GT(interval.high, 0.2);
  EXPECT_EQ(reflection_difference(even, even).low, 0);
  EXPECT_EQ(reflection_difference(even, even).high, 0);
  EXPECT_EQ(refusal([&] { reflection_difference(even, sure); }),
            "[puzzles] scores of 4 and 3 tasks cannot be paired");
}

// Scores the labels themselves, with one cell of row 1 changed.
nlohmann::json score_labels(const Dataset& data) {
  Evaluation evaluation(data);
  const int64_t batch_rows = 4;
  for (int64_t first = 0; first < data.test().rows(); first += batch_rows) {
    const auto batch = data.test().batch(evaluation_rows(data.test(), first, batch_rows));
    auto answers = batch.labels;
    for (auto& token : answers)
      if (token == kNotScored) token = 0;
    std::vector<double> q_halt(static_cast<std::size_t>(batch_rows), 1.0);
    if (first == 0) {
      const auto cells = static_cast<std::size_t>(data.info().cells());
      auto cell = cells;
      while (batch.labels[cell] == kNotScored) ++cell;
      answers[cell] = answers[cell] == 2 ? 3 : 2;
      q_halt[1] = -1;
    }
    evaluation.add(batch, answers, q_halt);
  }
  return evaluation.results();
}

TEST(Evaluation, OfAlmostPerfectAnswers) {
  const TemporaryFolder folder;
  const auto set = generate_sudokus({.size = 4, .rounds = {0}, .seed = 9, .threads = 1}, 3, 6);
  write_sudokus(folder.path() / "s", 4, set, 0, Rows::made, {{"seed", 3}});
  const auto sudoku = score_labels(Dataset::open(folder.path() / "s"));
  EXPECT_EQ(sudoku["rows"], 6);
  EXPECT_DOUBLE_EQ(sudoku["exact"], 5.0 / 6);
  EXPECT_DOUBLE_EQ(sudoku["cells"], 1 - 1.0 / 16 / 6);
  EXPECT_DOUBLE_EQ(sudoku["q_halt_accuracy"], 1);
  EXPECT_EQ(sudoku["by_rating"]["0"]["rows"], 6);

  const auto mazes = generate_mazes({.size = 8, .shortest = 8, .seed = 1, .threads = 1}, 1, 5);
  write_mazes(folder.path() / "m", 8, mazes, false, {});
  const auto maze = score_labels(Dataset::open(folder.path() / "m"));
  EXPECT_DOUBLE_EQ(maze["shortest_path"], 4.0 / 5);

  const auto recipe =
      build_arc({{random_tasks("a", 2, 6), false}, {random_tasks("bb", 4, 6), true}},
                {.variants = 6, .seed = 3, .canvas = 8});
  write_arc(folder.path() / "a", "arc", recipe, Rows::made, {});
  const auto arc = score_labels(Dataset::open(folder.path() / "a"));
  EXPECT_DOUBLE_EQ(arc["pass_at_k"]["1"], 1);  // six right votes outnumber a wrong one
  EXPECT_LT(arc["sampled_pass_at_k"]["1"], 1);
  EXPECT_EQ(arc["test_inputs_without_predictions"], 0);
}

TEST(PlainScores, OfSudokusSinglesSolveThoseOfRatingZero) {
  const TemporaryFolder folder;
  const auto set = generate_sudokus({.size = 6, .rounds = {0, 20}, .seed = 9, .threads = 1}, 4, 30);
  write_sudokus(folder.path() / "s", 6, set, 0, Rows::made, {{"seed", 3}});
  const auto scores = plain_scores(Dataset::open(folder.path() / "s"));
  ASSERT_EQ(scores.size(), 3u);
  const auto &copy = scores[0].results, &frequent = scores[1].results, &singles = scores[2].results;
  EXPECT_EQ(scores[2].name, "singles");
  EXPECT_EQ(copy["exact"], 0);
  EXPECT_GT(frequent["cells"], copy["cells"]);
  EXPECT_GT(singles["by_rating"]["0"]["rows"], 0);
  EXPECT_LT(singles["by_rating"]["0"]["rows"], 30);
  for (const auto& [bin, count] : singles["by_rating"].items())
    EXPECT_EQ(count["exact"], bin == "0" ? 1 : 0) << bin;
}

TEST(PlainScores, OfArcAreThoseOfTheGridsThemselves) {
  auto tasks = random_tasks("bb", 3, 4);
  // The first task's answer is its input, the second's the output of two of three demonstrations.
  tasks[0].tests = {{tasks[0].demonstrations[0].input, tasks[0].demonstrations[0].input}};
  auto& second = tasks[1];
  second.demonstrations = {second.demonstrations[0],
                           second.demonstrations[1],
                           {second.demonstrations[0].input, second.demonstrations[1].output}};
  second.tests = {{second.demonstrations[0].input, second.demonstrations[1].output}};
  const TemporaryFolder folder;
  const auto recipe = build_arc({{random_tasks("a", 2, 4), false}, {tasks, true}},
                                {.variants = 4, .seed = 3, .canvas = 8});
  for (const auto rows : {Rows::made, Rows::stored})
    write_arc(folder.path() / (rows == Rows::made ? "made" : "stored"), "arc", recipe, rows, {});
  const auto made = plain_scores(Dataset::open(folder.path() / "made"));
  ASSERT_EQ(made.size(), 2u);
  EXPECT_DOUBLE_EQ(made[0].results["pass_at_k"]["1"], 1.0 / 3);
  EXPECT_DOUBLE_EQ(made[1].results["pass_at_k"]["1"], 1.0 / 3);
  EXPECT_EQ(made[1].name, "demonstrations");
  const auto stored = plain_scores(Dataset::open(folder.path() / "stored"));
  ASSERT_EQ(stored.size(), 2u);
  for (const std::size_t i : {0, 1}) EXPECT_EQ(stored[i].results, made[i].results) << i;
}

TEST(Evaluation, RatingsHaveFourBins) {
  EXPECT_EQ(rating_bin(0), "0");
  EXPECT_EQ(rating_bin(1), "1-10");
  EXPECT_EQ(rating_bin(10), "1-10");
  EXPECT_EQ(rating_bin(11), "11-30");
  EXPECT_EQ(rating_bin(31), ">30");
}

}  // namespace
}  // namespace geores::puzzles
