#include "lab/experiments/studies/studies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "geores/base/file.h"
#include "geores/model/recursive/recursive.h"
#include "geores/model/recursive/recursive_kind.h"
#include "geores/testing/testing.h"
#include "lab/experiments/studies/study_report.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

TEST(Studies, ArmsHaveTheSameWidthAndAboutTheSameSize) {
  for (const auto& study : puzzle_studies()) {
    std::set<std::string> names;
    int64_t plain = 0;
    for (const auto& arm : study.arms) {
      names.insert(arm.name);
      const auto config = study_config(study, arm, 1, {}, "data");
      const auto model = recursive_options(config.model);
      EXPECT_EQ(model.width, study.config["width"].get<int64_t>());
      if (model.mlp_t) continue;  // another kind of layer, with its own size
      int64_t layers = 0;
      for (int64_t i = 0; i < model.layers; ++i)
        layers += parameter_count(RecursiveLayer(model, 10, i));
      if (arm.name == "none") plain = layers;
      EXPECT_NEAR(double(layers) / double(plain), 1, 0.012) << study.name << " " << arm.name;
    }
    for (const auto* wanted :
         {"none", "cayley", "sinkhorn", "edelta", "identity", "sinkhorn_softmax"})
      EXPECT_TRUE(names.contains(wanted)) << study.name << " " << wanted;
  }
}

TEST(Studies, ExtraArmsAreTrainedOnlyIfAskedFor) {
  const auto names_of = [](const std::vector<const StudyArm*>& arms) {
    std::vector<std::string> names;
    for (const auto* arm : arms) names.push_back(arm->name);
    return names;
  };
  const auto& study = find_study("s6");
  EXPECT_EQ(names_of(study.chosen({})),
            (std::vector<std::string>{"none", "cayley", "sinkhorn", "edelta", "identity",
                                      "sinkhorn_softmax"}));
  const std::vector<std::string> asked = {"edelta_identity", "none"};
  EXPECT_EQ(names_of(study.chosen(asked)), asked);
}

TEST(Studies, ArmsAreComparedWithTheirControls) {
  std::vector<std::string> pairs;
  for (const auto& arm : find_study("s6").arms)
    for (const auto& base : find_study("s6").arms)
      if (base.name != "none" && is_compared(arm.name, base.name))
        pairs.push_back(arm.name + " " + base.name);
  std::sort(pairs.begin(), pairs.end());
  EXPECT_EQ(pairs,
            (std::vector<std::string>{
                "cayley identity", "cayley sinkhorn", "cayley sinkhorn_softmax",
                "cayley_exact identity", "edelta edelta_identity", "edelta identity",
                "edelta_identity identity", "sinkhorn identity", "sinkhorn_softmax identity"}));
  for (const auto& arm : find_study("s6").arms)
    EXPECT_EQ(is_compared(arm.name, "none"), arm.name != "none") << arm.name;
}

// Results of one arm: the share of test puzzles that each run solved, by evaluation.
nlohmann::json results_of(const std::vector<std::vector<double>>& runs) {
  auto curves = nlohmann::json::array();
  for (const auto& exact : runs) {
    auto test = nlohmann::json::array();
    for (size_t i = 0; i < exact.size(); ++i)
      test.push_back(
          {{"step", 100 * (i + 1)}, {"seconds", i}, {"exact", exact[i]}, {"cells", exact[i]}});
    curves.push_back({{"seed", 1}, {"test", test}, {"train", nlohmann::json::array()}});
  }
  return {{"arms",
           {{"none",
             {{"label", "no mixer"}, {"parameters", 1}, {"mlp_hidden", 8}, {"curves", curves}}}}},
          {"plain", nlohmann::json::array()},
          {"differences", nlohmann::json::array()}};
}

// A run may fall below the threshold again: the first time counts.
TEST(StudyReport, SaysWhenEachRunBegan) {
  const auto results = results_of({{0, 0.1, 0.09, 0.5}, {0, 0, 0.05, 0.0999}});
  const auto report = make_study_report(find_study("s6"), results);
  const std::vector<std::vector<std::string>> rows = {{"no mixer", "200, –", "400, –", "–, –"}};
  EXPECT_EQ(std::ranges::count(report.tables(), rows, &Table::rows), 1) << report.to_markdown();
}

// Low curves would be flat on an axis up to 100 %.
TEST(StudyReport, LowCurvesFillTheirAxis) {
  const auto has_mark = [](double most, const std::string& mark) {
    const auto page = make_study_report(find_study("s6"), results_of({{0.01, most}}));
    return page.figures().at(0).svg.find("\"end\">" + mark + "</text>") != std::string::npos;
  };
  EXPECT_TRUE(has_mark(0.6, "50"));
  EXPECT_FALSE(has_mark(0.06, "50"));
  EXPECT_TRUE(has_mark(0.06, "4"));
}

TEST(Studies, QuickSizeRunsToTablesAndContinues) {
  const TemporaryFolder folder;
  auto study = quick_study(find_study("s6"));
  study.config["steps"] = 4;
  StudyOptions options{
      .out = (folder.path() / "s6").string(), .arms = {"none", "identity"}, .seeds = {1, 2}};
  // Stopped at its third step it writes a checkpoint, and resumes from it.
  int asked = 0;
  EXPECT_FALSE(run_study(study, options,
                         {.progress = {}, .notice = {}, .stop = [&] { return ++asked > 2; }}));
  EXPECT_TRUE(can_resume(options.out + "/runs/none-1"));
  std::string notices;
  const auto results = *run_study(
      study, options,
      {.progress = {}, .notice = [&](const std::string& text) { notices += text + "\n"; }});
  EXPECT_TRUE(notices.starts_with("4 runs with 16 steps together: about ")) << notices;
  for (const auto* arm : {"none", "identity"}) {
    const auto& exact = results["arms"][arm]["numbers"]["exact"];
    EXPECT_EQ(exact["values"].size(), 2u) << arm;
    EXPECT_TRUE(results["arms"][arm]["numbers"].contains("by_rating.0.exact")) << results.dump();
  }
  EXPECT_EQ(results["differences"].size(), 1u);
  ASSERT_EQ(results["arms"]["none"]["curves"].size(), 2u);
  const auto& tests = results["arms"]["none"]["curves"][1]["test"];
  ASSERT_FALSE(tests.empty());
  const auto& last = tests.back();
  EXPECT_EQ(last["step"], 4);
  EXPECT_EQ(last["cells"], results["arms"]["none"]["numbers"]["cells"]["values"][1]);
  EXPECT_EQ(results["plain"].size(), 3u);
  const auto tables = read_text_file(options.out + "/tables.md");
  const auto report = make_study_report(study, results);
  EXPECT_EQ(tables, report.to_markdown());
  std::set<std::string> rows;  // their first cells
  for (const auto& table : report.tables())
    for (const auto& row : table.rows) rows.insert(row.at(0));
  for (const auto* arm : {"none", "identity"})
    EXPECT_TRUE(rows.contains(results["arms"][arm]["label"].get<std::string>())) << arm;
  for (const auto& rule : results["plain"])
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const auto& row) {
      return row.ends_with(rule["label"].get<std::string>());
    })) << rule;
  EXPECT_TRUE(fs::exists(options.out + "/index.html"));
  // Nothing is left to train.
  bool trained = false;
  EXPECT_EQ(*run_study(study, options,
                       {.progress = [&](const JobProgress&) { trained = true; },
                        .notice = [&](const std::string&) { trained = true; }}),
            results);
  EXPECT_FALSE(trained);
}

TEST(Studies, RefusesWhatItDoesNotHave) {
  EXPECT_EQ(refusal([] { find_study("s8"); }), "[study] unknown study 's8', did you mean 's6'?");
  EXPECT_EQ(refusal([] { find_study("s6").arm("cayly"); }),
            "[study] s6 has no arm 'cayly', did you mean 'cayley'?");

  const TemporaryFolder folder;
  EXPECT_EQ(
      refusal([&] { make_study_data(find_study("a10").data, (folder.path() / "x").string(), ""); }),
      "[study] a study on ARC needs --tasks DIR with its JSON files");
  const auto out = (folder.path() / "study").string();
  const auto refused = [&](const char* name, const StudyOptions& changed) {
    auto options = changed;
    options.out = out;
    return refusal([&] { (void)run_study(quick_study(find_study(name)), options); });
  };
  EXPECT_EQ(refused("a10", {}), "[study] a study on ARC needs --tasks DIR with its JSON files");
  EXPECT_EQ(refused("s6", {.arc_tasks = "x"}),
            "[study] s6 makes its own puzzles: --tasks is for a study on ARC");
  EXPECT_EQ(refused("s6", {.seeds = {1, 1}}), "[reproduce] seed 1 is given twice");
  EXPECT_EQ(refused("s6", {.changes = {{"mixer", "cayley"}}}),
            "[changes] 'mixer' is set by the study");
  EXPECT_NE(refused("s6", {.changes = {{"leyers", 3}}}), "");
  EXPECT_NE(refused("s6", {.changes = nlohmann::json::array({1})}), "");
  EXPECT_FALSE(fs::exists(out)) << "a refused study creates nothing";

  // Results of another study, scale or change are not reused.
  fs::create_directories(fs::path(out) / "runs/none-1");
  write_file_atomically(fs::path(out) / "runs/none-1/config.json", "{}");
  write_file_atomically(fs::path(out) / "study.json",
                        R"({"study": "s6", "scale": "quick", "changes": {}, "precision": "fp32"})");
  EXPECT_NE(refused("m15", {}).find("with study \"s6\", asked for \"m15\""), std::string::npos);
  EXPECT_NE(refused("s6", {.changes = {{"lr", 3e-4}}}).find("choose another --out"),
            std::string::npos);
}

}  // namespace
}  // namespace geores
