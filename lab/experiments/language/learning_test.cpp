// Learning curves, verdicts, and the arms and texts of the controls.
#include "lab/experiments/language/learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "geores/base/file.h"
#include "geores/base/files/folder_lock.h"
#include "geores/base/files/remove_folder.h"
#include "geores/testing/testing.h"
#include "lab/diagnostics/diagnostics_log.h"
#include "lab/experiments/language/language_figures.h"
#include "lab/experiments/language/language_tables.h"
#include "lab/experiments/language/papers.h"
#include "lab/experiments/language/shuffled_text.h"
#include "lab/experiments/language/verdicts.h"

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

// Evaluations need not be evenly spaced: the last one often follows another one closely.
TEST(Learning, TheTargetIsTheLossAfterHalfTheStepsAndSeedsThatReachItAreCounted) {
  const TemporaryFolder folder;
  auto depth = depth_findings({"L12", "L24"});
  const auto add = [&](const std::string& column, const std::string& arm, int seed,
                       const std::vector<LossAt>& losses) {
    const auto name = column + arm + std::to_string(seed);
    depth.cells[column][arm].runs.push_back(
        run_with(folder.path() / name, validation_lines(losses)));
  };
  // The middle of the list is step 70; the nearest to half of 100 steps is 48.
  add("L24", "pre", 1, {{0, 9}, {48, 5}, {70, 4}, {96, 3}, {100, 3}});
  add("L24", "pre", 2, {{0, 9}, {48, 6}, {70, 4}, {96, 3}, {100, 3}});
  add("L24", "mgt", 1, {{0, 9}, {100, 6}});
  add("L12", "mgt", 1, {{0, 9}, {20, 6}, {40, 5}});  // 5.5 after 30 steps
  add("L12", "mgt", 2, {{0, 9}, {20, 6}, {60, 5}});  // after 40
  add("L12", "mgt", 3, {{0, 9}, {20, 6}});
  const auto table = target_table(depth);
  for (const auto* number : {" 5.500", " L24", " 48 "})
    EXPECT_NE(table.explanation.find(number), std::string::npos) << table.explanation;
  using Row = std::vector<std::string>;
  ASSERT_EQ(table.rows.size(), 3u);
  // 35 steps of 128 tokens are 0.00448M.
  EXPECT_EQ(table.rows[0], (Row{"MGT", "L12", "0.004 ± 0.001M", "2 of 3"}));
  EXPECT_EQ(table.rows[1][0], "pre-norm");
  EXPECT_EQ(table.rows[1][3], "2 of 2");
  EXPECT_EQ(table.rows[2][1], "L24");
  EXPECT_EQ(table.rows[2][2].find_first_of("0123456789"), std::string::npos) << table.rows[2][2];
  EXPECT_EQ(table.rows[2][3], "0 of 1");
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

// The columns to which a claim is limited.
std::vector<std::string> columns_in(const Verdict& verdict) {
  std::vector<std::string> found;
  for (const auto* name : {"L12", "L24", "L48", "L100"})
    if (verdict.claim.find(name) != std::string::npos) found.push_back(name);
  return found;
}

LanguageFindings findings_of(const ExperimentFindings& one) {
  return {.paper = {}, .scale = "", .hardware = {}, .folder = "", .experiments = {one}};
}

TEST(LanguageVerdicts, DepthIsJudgedBetweenTheDepthsThatAreTrained) {
  using Columns = std::vector<std::string>;
  // The verdicts on depth: MGT's gain, and its lead over pre-norm.
  constexpr std::size_t kGain = 0, kLead = 1;
  auto depth = depth_findings({"L12", "L24", "L48", "L100"});
  const auto set = [&](const char* column, const char* arm, std::vector<double> losses,
                       std::vector<int64_t> seeds = {42, 123, 456}) {
    depth.cells[column][arm].exact = std::move(losses);
    depth.cells[column][arm].seeds = std::move(seeds);
  };
  EXPECT_EQ(language_verdicts(findings_of(depth)).at(kGain).verdict, "open");
  set("L24", "mgt", {5.0, 5.1, 5.2});
  EXPECT_EQ(language_verdicts(findings_of(depth)).at(kGain).verdict, "open") << "one depth alone";
  set("L24", "pre", {5.1, 5.2, 5.3});
  set("L48", "mgt", {4.0, 4.1, 4.2});
  set("L48", "pre", {5.0, 5.12, 5.24});
  set("L100", "mgt", {6.0, 6.1, 6.2});
  auto verdicts = language_verdicts(findings_of(depth));
  EXPECT_EQ(columns_in(verdicts.at(kGain)), (Columns{"L24", "L100"}));
  EXPECT_EQ(verdicts.at(kGain).verdict, "reversed");
  EXPECT_EQ(columns_in(verdicts.at(kLead)), (Columns{"L24", "L48"})) << "L100 has no pre-norm";
  EXPECT_EQ(verdicts.at(kLead).verdict, "holds");
  // Pre-norm's seed 42 diverged: the other seeds stay paired, with differences 1.02 and 1.04.
  set("L48", "pre", {5.12, 5.24}, {123, 456});
  const auto fewer = language_verdicts(findings_of(depth)).at(kLead);
  EXPECT_NE(fewer.numbers.find("1.03"), std::string::npos) << fewer.numbers;
  set("L12", "mgt", {7.0, 7.1, 7.2});
  verdicts = language_verdicts(findings_of(depth));
  EXPECT_EQ(columns_in(verdicts.at(kGain)), Columns{}) << "all columns";
}

// Measurements on finished runs need weights, which are often not copied.
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
  const auto negative = language_verdicts(findings).at(0);
  EXPECT_EQ(negative.numbers, "-0.2000 ± 0.1000");
  EXPECT_EQ(negative.verdict, "open");
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
  ASSERT_EQ(table.rows.size(), 1u);
  // (40 · 0.5 + 10 · 0.2)/50 and (40 · 0.5 + 10 · 0.6)/50
  EXPECT_EQ(table.rows[0][6], "0.480 ± 0.057");
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

// The number of axis marks with this text.
int64_t marks(const std::string& figure, const std::string& text) {
  int64_t count = 0;
  for (auto at = figure.find(">" + text + "</text>"); at != std::string::npos;
       at = figure.find(">" + text + "</text>", at + 1))
    ++count;
  return count;
}

// Every panel is a drawing inside that of the figure.
int64_t panels(const std::string& figure) {
  int64_t count = -1;
  for (auto at = figure.find("<svg "); at != std::string::npos; at = figure.find("<svg ", at + 1))
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
  EXPECT_EQ(panels(figure), 3) << "validation by tokens and by seconds, training by tokens";
  EXPECT_EQ(marks(figure, "13.4"), 2);
  EXPECT_EQ(marks(figure, "150"), 2) << "100 steps of 1.6 million tokens";
  EXPECT_EQ(marks(figure, "10"), 1) << "seconds";
  EXPECT_EQ(marks(figure, "50"), 2) << "tokens, and no loss of 80 or 90";
  EXPECT_EQ(marks(figure, "3.0"), 0) << "means over two steps are 2.5 to 2.6";
}

TEST(LanguageFigures, GradientNormsAreMediansAndMaximaOfAHundredSteps) {
  const TemporaryFolder folder;
  auto findings = depth_findings({"text"});
  std::string metrics;
  for (int step = 0; step < 300; ++step)
    metrics +=
        nlohmann::json{{"step", step}, {"grad_norm", step % 100 == 50 ? 1000 : 10}}.dump() + "\n";
  findings.cells["text"]["pre"].runs = {run_with(folder.path() / "run", metrics)};
  const auto figure = gradient_figure(findings);
  EXPECT_EQ(panels(figure), 2) << "medians and maxima";
  for (const auto* label : {"5", "10", "20"}) EXPECT_EQ(marks(figure, label), 1) << label;
  EXPECT_EQ(marks(figure, "1000"), 1);
  EXPECT_EQ(marks(figure, "100"), 2) << "steps; no mean of the two";
  findings.cells["text"]["pre"].runs = {run_with(folder.path() / "none", "")};
  EXPECT_EQ(gradient_figure(findings), "");
}

TEST(LanguageFigures, WhatChangesInTrainingIsByStepAndArm) {
  const TemporaryFolder folder;
  auto findings = depth_findings({"text"});
  const auto line = [](int step, double row, double rank) {
    const nlohmann::json layer = {{"composite_second", {{"mean", 0.5}}}, {"cosine", 0.25}};
    return nlohmann::json{{"step", step},
                          {"mixers", {{"row_maxima", {0.1, row, 1}}, {"layers", {layer, layer}}}},
                          {"relative_rank", {{"plain", {1, rank}}}}}
               .dump() +
           "\n";
  };
  const auto run = run_with(folder.path() / "run", "");
  write_file_atomically(fs::path(run) / "diagnostics.jsonl",
                        line(0, 0.9, 0.8) + line(70, 0.7, 0.6));
  findings.cells["text"]["mgt"].runs = {run};
  const auto figure = over_training_figure(findings);
  EXPECT_EQ(panels(figure), 4) << "row maxima, singular values, cosines, ranks";
  for (const auto* mark : {"0.90", "0.80"}) EXPECT_GE(marks(figure, mark), 1) << figure;
  EXPECT_EQ(marks(figure, "MGT"), 1) << "one legend";
  EXPECT_EQ(marks(figure, "pre-norm"), 0) << "nothing was measured";
  findings.cells["text"]["mgt"].runs = {};
  EXPECT_EQ(over_training_figure(findings), "");
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
  // The title names the base; the other arms have the legend.
  EXPECT_NE(figure.find(findings.experiment.arms[0].label), std::string::npos);
  EXPECT_EQ(marks(figure, findings.experiment.arms[0].label), 0);
  EXPECT_EQ(marks(figure, findings.experiment.arms[1].label), 1);

  // Without runs of the first arm the next one is the base.
  cells[first].runs.clear();
  findings.experiment.arms.push_back({"third", "a third", findings.experiment.arms[0].config});
  cells["third"].runs = {run("c-seed2", 5, 3), run("c-seed1", 7, 6)};
  const auto other = difference_figure(findings);
  EXPECT_NE(other.find(findings.experiment.arms[1].label), std::string::npos);
  EXPECT_EQ(marks(other, findings.experiment.arms[1].label), 0);
  EXPECT_EQ(marks(other, "a third"), 1);
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
  EXPECT_EQ(panels(figure), 4);
  const auto panel_of = [&](int l) { return figure.find(fmt::format("operator {}, ", l)); };
  for (const int l : {0, 3, 6, 9}) EXPECT_NE(panel_of(l), std::string::npos) << l;
  EXPECT_EQ(panel_of(1), std::string::npos);
  EXPECT_EQ(marks(figure, "MGT"), 4);
}

// Other texts, and streams next to those of the fixed identity, are shown as differences.
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
                                                     {"column_sums", {1, 1}},
                                                     {"forward_gain", 1},
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
  EXPECT_NE(figure.find("\"end\">-0.2</text>"), std::string::npos) << figure;
}

TEST(LanguageFigures, QuartersAreTheFirstTheLastAndTwoBetween) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(quarters(10), (Indices{0, 3, 6, 9}));
  EXPECT_EQ(quarters(2), (Indices{0, 1}));
  EXPECT_EQ(quarters(1), (Indices{0}));
  EXPECT_EQ(quarters(0), Indices{});
}

TEST(LanguageVerdicts, AMeanIsTestedAgainstANumber) {
  const auto test = test_of_mean({.mean = 2, .deviation = 1, .count = 4}, 1);
  EXPECT_NEAR(test.t, 2, 1e-12);
  EXPECT_NEAR(test.p, 0.1393, 1e-4);  // two-sided, three degrees of freedom
  EXPECT_TRUE(std::isnan(test_of_mean({.mean = 2, .count = 1}, 1).p));
}

TEST(LanguagePapers, ArmsWithALongWarmUpDifferInNothingElse) {
  const auto compare = [](const char* name, const char* experiment, const char* arm, double warmup,
                          double longer) {
    auto paper = language_paper(name, "gpu", "data");
    paper.set_steps(300);
    const auto& all = paper.experiment(experiment);
    const auto keys_of = [&](const std::string& of) {
      return run_config(all.columns.front(), all.arm(of), 42, language_scale("gpu"), {}).write();
    };
    auto keys = keys_of(arm);
    const auto warm = keys_of(arm + std::string("_warm"));
    EXPECT_NEAR(keys.at("warmup").get<double>(), warmup, 1) << experiment << " " << arm;
    EXPECT_NEAR(warm.at("warmup").get<double>(), longer, 1) << experiment << " " << arm;
    keys["warmup"] = warm.at("warmup");
    EXPECT_EQ(keys, warm) << experiment << " " << arm;
  };
  for (const auto* arm : {"pre", "mgt"}) compare("mgt", "depth", arm, 15, 60);
  for (const auto* arm : {"pre_matched", "mgt"}) compare("mgt", "language", arm, 15, 60);
  for (const auto* arm : {"additive", "root", "hc", "identity"})
    compare("shc", "one_stream", arm, 30, 60);
}

TEST(ShuffledText, HasTheSameIdsInAnotherOrderAndIsMadeOnce) {
  const TemporaryFolder folder;
  const auto text = folder.path() / "text", shuffled = folder.path() / "text-shuffled";
  fs::create_directories(text);
  std::vector<uint16_t> ids(1000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(i / 3);
  write_file_atomically(text / "train.bin", to_bytes(ids));
  write_file_atomically(text / "data.json", to_bytes(std::string_view("{}")));
  make_shuffled_text(text);
  const auto bytes = read_file(shuffled / "train.bin");
  std::vector<uint16_t> found(bytes.size() / 2);
  std::memcpy(found.data(), bytes.data(), bytes.size());
  EXPECT_NE(found, ids);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, ids);
  EXPECT_EQ(read_text_file(shuffled / "data.json"), "{}");
  // Another text replaces it; another note on the folder in data.json does not.
  write_file_atomically(text / "data.json", to_bytes(std::string_view("{\"checked\": 1}")));
  write_file_atomically(shuffled / "mark", to_bytes(std::string_view("")));
  make_shuffled_text(text);
  EXPECT_TRUE(fs::exists(shuffled / "mark"));
  write_file_atomically(text / "data.json", to_bytes(std::string_view("{\"splits\": 1}")));
  make_shuffled_text(text);
  EXPECT_FALSE(fs::exists(shuffled / "mark"));
  EXPECT_TRUE(fs::exists(shuffled / "train.bin"));
  {
    const FolderLock other(text);  // another process creates it: the existing one stays unchanged
    EXPECT_NO_THROW(make_shuffled_text(text));
    remove_folder(shuffled);
    EXPECT_NE(refusal([&] { make_shuffled_text(text); }).find("is in use by"), std::string::npos);
  }
  make_shuffled_text(text);
  EXPECT_FALSE(fs::exists(shuffled / "in_use.lock"));
  remove_folder(text);
  EXPECT_NO_THROW(make_shuffled_text(text)) << "it is there";
  remove_folder(shuffled);
  EXPECT_NE(refusal([&] { make_shuffled_text(text); }).find("geores data text"), std::string::npos);
}

}  // namespace
}  // namespace geores
