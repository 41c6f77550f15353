// Tables of how runs learned, from folders made by hand.
#include "geores/experiments/language/learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "geores/base/file.h"
#include "geores/diagnostics/diagnostics_log.h"
#include "geores/experiments/language/language_figures.h"
#include "geores/experiments/language/language_tables.h"
#include "geores/experiments/language/papers.h"
#include "geores/experiments/language/verdicts.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

std::string run_with(const fs::path& folder, const std::string& metrics) {
  fs::create_directories(folder);
  write_file_atomically(folder / "metrics.jsonl", metrics);
  return folder.string();
}

std::string validation_lines(const std::vector<LossAt>& losses) {
  std::string text;
  for (const auto& one : losses)
    text += nlohmann::json{{"step", one.step}, {"validation", one.loss}}.dump() + "\n";
  return text;
}

// Runs of 100 steps of 8 × 16 tokens.
ExperimentFindings depth_findings(const std::vector<std::string>& columns) {
  ExperimentFindings depth;
  depth.experiment.name = "depth";
  const nlohmann::json config = {{"steps", 100}, {"batch", 8}};
  depth.experiment.arms = {{"pre", "pre-norm", config}, {"mgt", "MGT", config}};
  for (const auto& name : columns) {
    depth.experiment.columns.push_back(
        {name, name, {{"task", "text"}, {"data", "nowhere"}, {"context", 16}}});
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
  const auto found = norms_of_gradients(cell, 1);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->median, 0.75, 1e-12);
  EXPECT_NEAR(found->high, 1.485, 1e-12);
  EXPECT_NEAR(found->most, 1.5, 1e-12);
  EXPECT_NEAR(found->clipped, 100.0 / 301, 1e-12) << "1.005 to 1.5";
  EXPECT_EQ(norms_of_gradients(cell, 0)->clipped, 0) << "without a limit";
  EXPECT_FALSE(norms_of_gradients({}, 1).has_value());
}

const Verdict& verdict_about(const std::vector<Verdict>& all, const std::string& words) {
  return *std::ranges::find_if(
      all, [&](const Verdict& one) { return one.claim.find(words) != std::string::npos; });
}

LanguageFindings findings_of(const ExperimentFindings& one) {
  return {.paper = {}, .scale = "", .hardware = {}, .folder = "", .experiments = {one}};
}

TEST(LanguageVerdicts, DepthIsJudgedBetweenTheDepthsThatAreTrained) {
  auto depth = depth_findings({"L12", "L24", "L48", "L100"});
  EXPECT_EQ(verdict_about(language_verdicts(findings_of(depth)), "gains").verdict, "open");
  depth.cells["L24"]["mgt"].exact = {5.0, 5.1, 5.2};
  EXPECT_EQ(verdict_about(language_verdicts(findings_of(depth)), "gains").verdict, "open")
      << "one depth alone";
  depth.cells["L24"]["pre"].exact = {5.1, 5.2, 5.3};
  depth.cells["L48"]["mgt"].exact = {4.0, 4.1, 4.2};
  depth.cells["L48"]["pre"].exact = {5.0, 5.12, 5.24};
  depth.cells["L100"]["mgt"].exact = {6.0, 6.1, 6.2};
  auto verdicts = language_verdicts(findings_of(depth));
  const auto& gain = verdict_about(verdicts, "gains");
  EXPECT_EQ(gain.claim, "MGT gains from depth at an equal number of parameters (L24 to L100 only)");
  EXPECT_EQ(gain.verdict, "reversed");
  const auto& lead = verdict_about(verdicts, "lead");
  EXPECT_EQ(lead.claim, "MGT's lead over pre-norm grows with depth (L24 to L48 only)")
      << "L100 has no pre-norm";
  EXPECT_EQ(lead.verdict, "holds");
  depth.cells["L12"]["mgt"].exact = {7.0, 7.1, 7.2};
  verdicts = language_verdicts(findings_of(depth));
  EXPECT_EQ(verdict_about(verdicts, "gains").claim,
            "MGT gains from depth at an equal number of parameters");
}

// What is measured on a finished run needs its weights, which rarely all travel.
TEST(LanguageVerdicts, BetasOfSeedsWithoutMeasuresAreThoseOfTheirLastLine) {
  const TemporaryFolder folder;
  const auto line = [](double mean) {
    return nlohmann::json{{"step", 1}, {"beta", {{{"mean", mean}, {"negative", 0.5}}}}}.dump() +
           "\n";
  };
  ExperimentFindings beta;
  beta.experiment.name = "beta";
  beta.experiment.arms = {{"start2", "b_β = 2", {}}};
  beta.experiment.columns = {{"text", "text", {}}, {"noise", "noise", {}}};
  beta.cells["noise"]["start2"] = {};
  for (const double mean : {-0.1, -0.2}) {
    const auto run = folder.path() / fmt::format("run{}", mean);
    fs::create_directories(run);
    write_file_atomically(run / "diagnostics.jsonl", line(9) + line(mean));
    beta.cells["text"]["start2"].runs.push_back(run.string());
  }
  beta.cells["text"]["start2"].runs.push_back((folder.path() / "measured").string());
  auto findings = findings_of(beta);
  findings.measured["measured"] = {{"end", {{"beta", {{{"mean", -0.3}, {"negative", 0.5}}}}}}};
  const auto verdicts = language_verdicts(findings);
  EXPECT_EQ(verdict_about(verdicts, "is negative").numbers, "-0.2000 ± 0.1000");
  EXPECT_EQ(verdict_about(verdicts, "is negative").verdict, "open");
}

TEST(LanguageTables, NegativeEntriesAreOfTheWholeDepthAndAllSeeds) {
  const auto third = [](double negative, const std::vector<int>& entries) {
    return nlohmann::json{{"negative", negative}, {"entries", entries}};
  };
  const nlohmann::json layer = {{"column_sums", {1.0}},
                                {"composite_column_sums", {1.0}},
                                {"composite_norm", {{"mean", 1.0}}},
                                {"composite_second", {{"mean", 1.0}}},
                                {"composite_least", {{"mean", 1.0}}}};
  auto mixers = depth_findings({"text"});
  mixers.cells["text"]["mgt"].runs = {"runs/a", "runs/b"};
  auto findings = findings_of(mixers);
  for (const auto& [name, last] : {std::pair{"a", 0.2}, {"b", 0.6}})
    findings.measured[name]["end"]["mixers"] = {
        {"layers", {layer}}, {"thirds", {third(0.5, {30, 10}), third(last, {4, 6})}}};
  const auto table = mixer_table(findings, mixers);
  const auto place = std::ranges::find(table.heads, "negative entries") - table.heads.begin();
  ASSERT_EQ(table.rows.size(), 1u);
  // (40 · 0.5 + 10 · 0.2)/50 and (40 · 0.5 + 10 · 0.6)/50
  EXPECT_EQ(table.rows[0][static_cast<size_t>(place)], "0.480 ± 0.057");
}

TEST(LanguageTables, BetasAreShownAtAQuarterAndHalfOfTheSteps) {
  std::vector<nlohmann::json> lines;
  for (const int step : {0, 20, 30, 45, 55, 70, 80, 96, 100}) lines.push_back({{"step", step}});
  EXPECT_EQ(quarters_of_training(lines), (std::vector<size_t>{0, 1, 3, 8}));
  lines.resize(2);
  EXPECT_EQ(quarters_of_training(lines), (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(quarters_of_training({}).empty());
}

TEST(LanguageTables, RanksAreMeansOfTheSeedsAndSayOfHowManyWindows) {
  auto ranks = depth_findings({"text"});
  auto& cell = ranks.cells.at("text").begin()->second;
  cell.runs = {"runs/one", "runs/two", "runs/not measured"};
  auto findings = findings_of(ranks);
  for (const auto& [run, end] : {std::pair("one", 0.4), {"two", 0.6}})
    for (const auto* when : {"start", "end"})
      findings.measured[run][when]["relative_rank"] = {
          {"windows", 64},           {"plain", {0.9, 0.5, end}}, {"centred", {0.9, end}},
          {"collapsed", {0.9, end}}, {"ratio", end / 0.9},       {"slope", -0.1}};
  const auto table = rank_table(findings, ranks);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].back(), "2, 64");
  EXPECT_EQ(table.rows[0][12], "1 of 2");
  EXPECT_TRUE(table.rows[0][7].starts_with("0.500 ±")) << table.rows[0][7];
  EXPECT_TRUE(table.rows[0][6].starts_with("0.500")) << table.rows[0][6];
}

// How many marks of axes say this.
int64_t marks(const std::string& figure, const std::string& text) {
  int64_t count = 0;
  for (auto at = figure.find(">" + text + "</text>"); at != std::string::npos;
       at = figure.find(">" + text + "</text>", at + 1))
    ++count;
  return count;
}

// The loss of the untrained model would take most of the axis.
TEST(LanguageFigures, LossCurvesBeginWithTrainingAndAreByTokensToo) {
  const TemporaryFolder folder;
  auto findings = depth_findings({"text"});
  findings.experiment.arms[0].config["batch"] = 100'000;
  const auto line = [](int step, const char* key, double loss) {
    return nlohmann::json{{"step", step}, {key, loss}, {"seconds", step / 10.0}}.dump() + "\n";
  };
  auto metrics = line(0, "validation", 90);
  for (int step = 0; step < 100; ++step) {
    metrics += line(step, "loss", step < 10 ? 80 : 2 + step % 2 + step / 1000.0);
    if (step % 10 == 9) metrics += line(step + 1, "validation", 13.5 - step / 200.0);
  }
  findings.cells["text"]["pre"].runs = {run_with(folder.path() / "run", metrics)};
  const auto figure = loss_figure(findings);
  for (const auto* label : {"seconds", "train loss"}) EXPECT_EQ(marks(figure, label), 1) << label;
  for (const auto* label : {"million tokens", "validation loss"})
    EXPECT_EQ(marks(figure, label), 2) << label;
  EXPECT_EQ(marks(figure, "13.4"), 2);
  EXPECT_EQ(marks(figure, "150"), 2) << "100 steps of 1.6 million tokens";
  EXPECT_EQ(marks(figure, "10"), 1) << "seconds";
  EXPECT_EQ(marks(figure, "50"), 2) << "tokens, and no loss of 80 or 90";
  EXPECT_EQ(marks(figure, "3.0"), 0) << "means over two steps are 2.5 to 2.6";
}

TEST(LanguageFigures, DifferencesAreTakenSeedBySeed) {
  const TemporaryFolder folder;
  auto findings = depth_findings({"text"});
  const auto run = [&](const std::string& name, double loss, double later) {
    std::string metrics;
    for (const auto& [step, value] : std::map<int, double>{{0, 90}, {10, loss}, {20, later}})
      metrics += nlohmann::json{{"step", step}, {"validation", value}}.dump() + "\n";
    return run_with(folder.path() / name, metrics);
  };
  auto& cells = findings.cells["text"];
  const auto first = findings.experiment.arms[0].name, second = findings.experiment.arms[1].name;
  cells[second].runs = {run("b-seed1", 6.8, 5.6), run("b-seed2", 4.8, 2.6), run("b-seed3", 1, 1)};
  EXPECT_EQ(difference_figure(findings), "") << "nothing to compare with";
  cells[first].runs = {run("a-seed2", 5, 3), run("a-seed1", 7, 6)};
  const auto figure = difference_figure(findings);
  // −0.2 and then −0.4 with both seeds. Across seeds, or with the third one, the axis would be longer.
  EXPECT_EQ(marks(figure, "-0.2") + marks(figure, "-0.20"), 1) << figure;
  EXPECT_EQ(marks(figure, "-0.4") + marks(figure, "-0.40"), 1);
  EXPECT_EQ(marks(figure, "-1"), 0);
  EXPECT_EQ(marks(figure, "2"), 0);
  EXPECT_EQ(marks(figure, "Validation loss, less that of " + findings.experiment.arms[0].label), 1);

  // Without runs of the first arm the next one is the base.
  cells[first].runs.clear();
  findings.experiment.arms.push_back({"third", "a third", findings.experiment.arms[0].config});
  cells["third"].runs = {run("c-seed2", 5, 3), run("c-seed1", 7, 6)};
  EXPECT_EQ(marks(difference_figure(findings),
                  "Validation loss, less that of " + findings.experiment.arms[1].label),
            1);
}

TEST(LanguageFigures, BetaHasFiveQuantilesOfFourOperators) {
  const TemporaryFolder folder;
  auto findings = depth_findings({"text"});
  std::string lines;
  for (const int step : {0, 50, 100}) {
    nlohmann::json line = {{"step", step}, {"beta", nlohmann::json::array()}};
    for (int l = 0; l < 10; ++l)
      line["beta"].push_back({{"mean", 0.1}, {"quantiles", {-0.8, -0.5, 0.1, 0.5, 0.8}}});
    lines += line.dump() + "\n";
  }
  findings.cells["text"]["mgt"].runs = {run_with(folder.path() / "run", "")};
  EXPECT_EQ(beta_quantile_figure(findings), "") << "nothing was recorded";
  write_file_atomically(folder.path() / "run" / "diagnostics.jsonl", lines);
  const auto figure = beta_quantile_figure(findings);
  for (const int l : {0, 3, 6, 9}) EXPECT_EQ(marks(figure, fmt::format("operator {}, text", l)), 1);
  EXPECT_EQ(marks(figure, "operator 1, text"), 0);
  EXPECT_EQ(marks(figure, "MGT"), 4);
}

// Other texts, and streams beside those of the fixed identity, are read as differences.
TEST(LanguageTables, ComparesWithTheFirstRowAndTheFixedIdentity) {
  auto paper = language_paper("shc", "gpu", "data");
  LanguageFindings all{
      .paper = paper, .scale = "", .hardware = {}, .folder = "", .experiments = {}};
  ExperimentFindings mixers;
  mixers.experiment = paper.experiment("mixers");
  const auto& column = mixers.experiment.columns.front().name;
  for (const auto& arm : mixers.experiment.arms) mixers.cells[column][arm.name] = {};
  const auto measure = [&](const std::string& arm, std::vector<double> bits,
                           std::vector<double> cosines) {
    for (const double bits_of_seed : bits) {
      const auto run = arm + std::to_string(bits_of_seed);
      mixers.cells[column][arm].runs.push_back("runs/" + run);
      all.measured[run]["other_texts"]["speeches"] = {{"bits_per_byte", bits_of_seed},
                                                      {"word_perplexity", 9}};
    }
    if (cosines.empty()) return;
    auto& measured = all.measured[arm + std::to_string(bits[0])];
    const nlohmann::json mean = {{"mean", 1}};
    for (const double cosine : cosines)
      measured["end"]["mixers"]["layers"].push_back({{"cosine", cosine},
                                                     {"composite_norm", mean},
                                                     {"composite_second", mean},
                                                     {"composite_least", mean},
                                                     {"composite_row_sums", {1, 1}},
                                                     {"composite_column_sums", {1, 1}},
                                                     {"composite_forward_gain", 1},
                                                     {"composite_backward_gain", 1}});
  };
  measure("additive", {2.01, 1.99}, {});
  measure("shc", {1.91, 1.89}, {0.25, 0.75});
  measure("identity", {1.95}, {0.5, 0.5});
  const auto table = other_text_table(all, mixers);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].at(1), "2.0000 ± 0.0141 (9.0)");
  EXPECT_EQ(table.rows[1].at(1), "1.9000 ± 0.0141, -5.0 %, p = 0.019 (9.0)");
  EXPECT_EQ(table.rows[2].at(1), "1.9500, -2.5 % (9.0)");
  const auto figure = mixer_figure(all, mixers);
  EXPECT_NE(figure.find("less the fixed identity"), std::string::npos);
  EXPECT_NE(figure.find("\"end\">-0.2</text>"), std::string::npos) << figure;
}

TEST(LanguageFigures, QuartersAreTheFirstTheLastAndTwoBetween) {
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(quarters(10), (Places{0, 3, 6, 9}));
  EXPECT_EQ(quarters(2), (Places{0, 1}));
  EXPECT_EQ(quarters(1), (Places{0}));
  EXPECT_EQ(quarters(0), Places{});
}

}  // namespace
}  // namespace geores
