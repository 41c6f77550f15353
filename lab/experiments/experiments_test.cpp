#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/model/transformer/transformer_kind.h"
#include "geores/modules/seeding.h"
#include "geores/testing/testing.h"
#include "geores/train/run/finished_run.h"
#include "geores/train/trainer.h"
#include "lab/experiments/figures.h"
#include "lab/experiments/language/papers.h"
#include "lab/experiments/report.h"
#include "lab/experiments/reproduce.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// ---- the data

TEST(Paper, EveryRunIsAValidConfigurationAtBothScales) {
  for (const auto* scale : {"quick", "paper"})
    for (const auto& run : planned_runs(paper_experiments(), scale_from(scale), {})) {
      const auto model = transformer_config(run.config.model.options, {});
      EXPECT_EQ(model.width % model.streams, 0) << run.name;
      EXPECT_EQ(model.width % model.heads, 0) << run.name;
      // A small data set suffices: the model must be valid.
      TrainConfig again;
      again.read(run.config.write(), run.name);
      EXPECT_EQ(again.write(), run.config.write());
      EXPECT_NO_THROW(make_residual(
          model.connection,
          {.width = model.width, .streams = model.streams, .options = model.options}));
    }
}

TEST(Paper, TheTablesHaveTheirSizeAndShareEqualRuns) {
  const auto runs = planned_runs(paper_experiments(), scale_from("paper"), {});
  std::set<std::string> names;
  for (const auto& run : runs) names.insert(run.name);
  EXPECT_EQ(names.size(), runs.size());
  // 6 models × 4 tasks, 7 further controls × 2 tasks of which one is a weight below, 3 initial
  // values × 2 tasks, 3 of 4 weights, 2 of 3 widths, 2 of 3 hidden ratios, 3 models × 5 of 6 angles
  // (3.1 is near_pi): three seeds each.
  EXPECT_EQ(runs.size(), 3u * (24 + (7 * 2 - 1) + 3 * 2 + 3 + 2 + 2 + 3 * 5));
  EXPECT_EQ(planned_runs({paper_experiments()[0]}, scale_from("paper"), {}).size(), 72u);
}

TEST(Paper, QuickIsSmallerInEverything) {
  const auto& main = paper_experiments()[0];
  for (const auto& arm : main.arms) {
    const auto paper = run_config(main.columns[0], arm, 42, scale_from("paper"), {});
    const auto quick = run_config(main.columns[0], arm, 42, scale_from("quick"), {});
    EXPECT_EQ(paper.steps, 2000);
    EXPECT_EQ(paper.batch, 64);
    EXPECT_EQ(paper.task.options.at("train_sequences"), 9000);
    for (const auto* key : {"width", "layers"})
      EXPECT_LT(quick.model.options.at(key), paper.model.options.at(key)) << key;
    EXPECT_LT(quick.steps, paper.steps);
    EXPECT_NE(run_name(quick), run_name(paper));
  }
  EXPECT_THROW(scale_from("large"), Error);
}

// Only the configuration itself determines the name: if the name depended on options at their
// defaults, each new option would make every study train its finished runs again.
TEST(Paper, ARunKeepsItsNameWhenOptionsAreAdded) {
  TrainConfig config;
  config.read({{"task", "gyroscope"}, {"model", "edelta"}, {"lr", 3e-3}, {"pool", "causal"}},
              "test");
  const auto name = run_name(config);
  EXPECT_EQ(name, "gyroscope-edelta-bafe62bd-seed42");
  config.lr = 1e-3;
  EXPECT_NE(run_name(config), name);

  const TemporaryFolder folder;
  const auto path = folder.path() / name;
  const auto refused = [&](double lr) {
    fs::create_directories(path);
    config.lr = lr;
    write_file_atomically(path / "config.json", config.write().dump());
    return refusal([&] { require_same_defaults(path.string()); });
  };
  EXPECT_EQ(refused(3e-3), "");
  EXPECT_NE(refused(2e-3).find("other defaults"), std::string::npos);
}

TEST(Paper, ChosenSeedsReplaceThePapers) {
  auto scale = scale_from("paper");
  scale.chosen_seeds = {7, 8, 9, 10};
  std::set<int64_t> seeds;
  const auto runs = planned_runs({paper_experiments()[0]}, scale, {});
  for (const auto& run : runs) seeds.insert(run.config.seed);
  EXPECT_EQ(seeds, (std::set<int64_t>{7, 8, 9, 10}));
  EXPECT_EQ(runs.size(), 4u * 24);
  EXPECT_EQ(scale.probe_seeds(), scale.chosen_seeds);

  // The check of the seeds runs before any probe is trained.
  const ReproduceListener stopping{.progress = {}, .notice = {}, .stop = [] { return true; }};
  const auto refused = [&](const std::vector<int64_t>& chosen) {
    const TemporaryFolder folder;
    auto small = scale_from("quick");
    small.chosen_seeds = chosen;
    return refusal([&] {
      const ReproduceOptions options{
          .out = folder.path().string(), .scale = small, .only = {"reflection"}};
      EXPECT_FALSE(reproduce(options, stopping).has_value())
          << "probes stop when they are asked to";
    });
  };
  EXPECT_EQ(refused({7, 8, 7}), "[reproduce] seed 7 is given twice");
  EXPECT_EQ(refused({-1}), "[reproduce] seed -1 is negative");
  EXPECT_EQ(refused({7, 8}), "");
}

TEST(Paper, ClaimsNameArmsThatExist) {
  for (const auto& claim : paper_claims()) {
    const auto& all = paper_experiments();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Experiment& one) {
      return one.name == claim.experiment;
    });
    ASSERT_NE(found, all.end()) << claim.text;
    EXPECT_NO_THROW(found->arm(claim.better)) << claim.text;
    EXPECT_NO_THROW(found->arm(claim.worse)) << claim.text;
    EXPECT_NO_THROW(found->column(claim.column)) << claim.text;
  }
}

TEST(LanguagePapers, OtherStepsChangeWarmUpAndEvaluationsInProportion) {
  auto paper = language_paper("shc", "gpu", "data");
  paper.set_steps(500);
  const auto& arm = paper.experiment("mixers").arm("shc").config;
  EXPECT_EQ(arm.at("steps"), 500);
  EXPECT_EQ(arm.at("warmup"), 50);
  EXPECT_EQ(arm.at("eval_interval"), 50);
  EXPECT_EQ(paper.experiment("streams").arm("shc").config.at("steps"), 20);
}

TEST(Report, SamplesAreWrittenWithOneExponent) {
  EXPECT_EQ(format_sample({3.78e-3, 0.04e-3, 3}), "3.78 ± 0.04 e-03");
  EXPECT_EQ(format_sample({9.999e-6, 1e-7, 3}), "1.00 ± 0.01 e-05");
  EXPECT_EQ(format_sample({1.44e-6, NAN, 1}), "1.44e-06");
  EXPECT_EQ(format_sample({}), "");
}

TEST(Report, VerdictsNeedSignificance) {
  EXPECT_EQ(verdict(3.0, {5, 4, 0.01}), "holds");
  EXPECT_EQ(verdict(0.3, {-5, 4, 0.01}), "reversed");
  EXPECT_EQ(verdict(3.0, {2, 4, 0.11}), "open");
  EXPECT_EQ(verdict(3.0, {NAN, NAN, NAN}), "open");
}

// ---- reflection

// The gate loss alone drives a gate from −1.5 to γ = 0.043 in 2000 steps, stays at ½ from exactly
// ½, and leaves it from anywhere else.
TEST(Reflection, TheGateLossAloneClosesTheGate) {
  EXPECT_NEAR(gate_under_regulariser(-1.5, 0.5, 2000).back(), 0.043, 0.002);
  EXPECT_EQ(gate_under_regulariser(0, 0.5, 2000).back(), 0.5);
  EXPECT_GT(gate_under_regulariser(1e-6, 0.5, 2000).back(), 0.8);
  EXPECT_LT(gate_under_regulariser(-1e-6, 0.5, 2000).back(), 0.2);
}

TEST(Reflection, ProbesLearnAndRecordTheirHistory) {
  std::set<std::string> repeated;
  for (const auto& probe : reflection_probes()) {
    const auto result =
        run_reflection(probe, {.samples = 50, .steps = 30, .seed = 1, .record_interval = 10});
    ASSERT_EQ(result.at("history").size(), 4u) << probe.name;
    const auto& first = result.at("history").front();
    EXPECT_EQ(first.at("step"), 0);
    EXPECT_EQ(result.at("history").back().at("step"), 30);
    if (probe.task_loss) {
      EXPECT_LT(result.at("loss").get<double>(), first.at("loss").get<double>()) << probe.name;
    }
    EXPECT_EQ(result.at("gamma").is_null(), probe.kind != "edelta") << probe.name;
    EXPECT_EQ(result.at("beta").is_null(), probe.kind != "edelta" && probe.kind != "ddl")
        << probe.name;
    if (probe.kind == "edelta" && probe.gate_bias < 0) {
      EXPECT_LT(result.at("gamma").get<double>(), first.at("gamma").get<double>()) << probe.name;
    }
    if (!repeated.insert(probe.kind).second) continue;  // one of each kind suffices
    EXPECT_EQ(run_reflection(probe, {.samples = 50, .steps = 30, .seed = 1, .record_interval = 10}),
              result)
        << "the same seed gives the same probe";
  }
}

// ---- norms

TEST(Norms, TheRunningMeanIsFarFromPreservingNorms) {
  EXPECT_NEAR(running_mean_deviation(100), 0.814, 0.001);
  EXPECT_EQ(running_mean_deviation(1), 0.0);
}

// A model whose output does not depend on its input: every norm is known.
TEST(Norms, AConstantModel) {
  auto model = with_seed(1, [] {
    return std::make_shared<Transformer>(TransformerConfig{.connection = "additive",
                                                           .layers = 1,
                                                           .width = 8,
                                                           .heads = 2,
                                                           .context = 13,
                                                           .input_width = 4});
  });
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : model->named_parameters())
      if (parameter.key() == "output.weight")
        parameter.value().zero_();
      else if (parameter.key() == "output.bias")
        parameter.value().fill_(1.5);  // norm 3 in R^4
  }
  Dataset data;
  data.train_x = data.validation_x = torch::full({5, 12, 4}, 0.5);  // norm 1
  const auto norms = measure_norms(*model, data,
                                   {.random_sequences = 3,
                                    .random_length = 100,
                                    .rollouts = 2,
                                    .rollout_steps = 30,
                                    .window = 5});
  EXPECT_NEAR(norms.at("random").get<double>(), 2, 1e-5);
  EXPECT_NEAR(norms.at("validation").get<double>(), 2, 1e-5);
  std::vector<int> steps;
  for (const auto& line : norms.at("rollout")) {
    steps.push_back(line.at("step").get<int>());
    EXPECT_NEAR(line.at("norm").get<double>(), 3, 1e-5);
    EXPECT_NEAR(line.at("error").get<double>(), 1, 1e-5) << "(1.5 − 0.5)²";
  }
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 5, 10, 20, 30}));
}

// ---- the engine

// The complete reproduction at a size where nothing is learned.
Scale tiny_scale() {
  return {.name = "tiny",
          .width_divisor = 16,
          .depth_divisor = 9,
          .gyroscope_sequences = 12,
          .train_sequences = 12,
          .validation_sequences = 6,
          .length = 9,
          .steps = 4,
          .batch = 2,
          .eval_batches = 1,
          .all_seeds = false,
          .reflection_samples = {3, 6},
          .reflection_seeds = {1},
          .reflection_steps = 4,
          .norms = {.random_sequences = 2,
                    .random_length = 8,
                    .rollouts = 2,
                    .rollout_steps = 5,
                    .window = 4}};
}

TEST(Reproduce, WritesEveryTableAndFigureAndContinuesWithWhatIsMissing) {
  const TemporaryFolder folder;
  const ReproduceOptions options{.out = folder.path().string(), .scale = tiny_scale(), .jobs = 2};
  int64_t steps = 0;
  ReproduceListener listener;
  listener.progress = [&](const JobProgress& progress) { steps = progress.total; };
  reproduce(options, listener);
  const auto page = read_text_file(folder.path() / "index.html");
  const auto markdown = read_text_file(folder.path() / "tables.md");
  const auto results = nlohmann::json::parse(read_text_file(folder.path() / "results.json"));
  for (const auto& experiment : paper_experiments()) {
    EXPECT_NE(page.find(escape_html(experiment.title)), page.npos) << experiment.title;
    EXPECT_NE(markdown.find(experiment.title), markdown.npos);
    for (const auto& arm : experiment.arms) EXPECT_NE(markdown.find(arm.label), markdown.npos);
  }
  for (const auto* figure : {"training", "gate", "theta", "reflection", "regulariser", "norms"}) {
    EXPECT_TRUE(fs::exists(folder.path() / "figures" / (std::string(figure) + ".svg"))) << figure;
    EXPECT_NE(markdown.find(fmt::format("(figures/{}.svg)", figure)), markdown.npos);
  }
  EXPECT_NE(page.find("class=\"warning\""), page.npos) << "this scale has no published numbers";
  EXPECT_NE(page.find("3.78 ± 0.04 e-03"), page.npos) << "a published number";
  EXPECT_EQ(page.find("src="), page.npos) << "nothing may be loaded";
  EXPECT_FALSE(results.at("comparable_with_published").get<bool>());
  EXPECT_EQ(results.at("experiments").size(), paper_experiments().size());
  EXPECT_EQ(results.at("claims").size(), paper_claims().size());
  // The explorer shows these next to ours.
  EXPECT_EQ(results.at("norms_published").at("gpt"), 0.474);
  EXPECT_EQ(results.at("norms_published").size(), 5u);
  EXPECT_EQ(results.at("norms_baselines").at("copy"), 0);
  EXPECT_EQ(results.at("norms_baselines").at("running_mean"), running_mean_deviation(8));
  EXPECT_EQ(results.at("reflection_published").size(), 3u);
  EXPECT_EQ(results.at("reflection_published").at("ddl").at("gate").at("mean"), 1.995);
  EXPECT_TRUE(results.at("reflection_published").at("jpmhc").at("gate").is_null());
  EXPECT_GT(steps, 300);
  for (const auto& column : paper_experiments()[0].columns)
    for (const auto& arm : paper_experiments()[0].arms) {
      const auto& seeds = results.at("norms").at(column.name).at(arm.name);
      ASSERT_EQ(seeds.size(), 2u) << column.name << " " << arm.name;
      EXPECT_GT(seeds[0].at("random").get<double>(), 0);
      EXPECT_EQ(seeds[0].at("rollout").empty(), column.name != "stability");
    }

  // Only the removed run and the removed probe are computed again.
  const auto& lost = results.at("experiments")[0].at("columns")[1].at("arms")[0].at("runs")[0];
  ASSERT_TRUE(fs::remove(folder.path() / lost.get<std::string>() / "result.json"));
  fs::remove(folder.path() / "probes" / "ddl-3-seed1.json");
  steps = -1;
  // The state of a copy without figures. Not by remove_all: see testing.h.
  for (const auto& figure : fs::directory_iterator(folder.path() / "figures")) fs::remove(figure);
  fs::remove(folder.path() / "figures");
  std::vector<std::string> notices;
  listener.notice = [&](const std::string& text) {
    EXPECT_EQ(steps, -1) << "before the work begins";
    notices.push_back(text);
  };
  reproduce(options, listener);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(notices[0].starts_with("1 run with 4 steps: about ")) << notices[0];
  EXPECT_EQ(steps, tiny_scale().steps + 1) << "a probe's ten steps count as one, at least one";
  auto again = nlohmann::json::parse(read_text_file(folder.path() / "results.json"));
  EXPECT_EQ(again.at("claims"), results.at("claims"));
  steps = -1;
  reproduce(options, listener);
  EXPECT_EQ(notices.size(), 1u);
  EXPECT_EQ(steps, -1) << "and a third time there is nothing to do";
}

TEST(Reproduce, RefusesUnknownNamesAndMixedFolders) {
  const TemporaryFolder folder;
  ReproduceOptions options{.out = (folder.path() / "r").string(), .only = {"reflektion"}};
  EXPECT_NE(refusal([&] { reproduce(options); }).find("did you mean 'reflection'"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(options.out));

  const auto probe = fs::path(options.out) / "probes" / "ddl-3-seed1.json";
  fs::create_directories(probe.parent_path());
  write_file_atomically(probe, "{}");
  write_file_atomically(fs::path(options.out) / "reproduction.json",
                        R"({"scale":"paper","device":"cpu","precision":"fp32","seeds":[]})");
  options.only = {"reflection"};
  EXPECT_NE(refusal([&] { reproduce(options); }).find("scale \"paper\", asked for \"quick\""),
            std::string::npos)
      << refusal([&] { reproduce(options); });

  write_file_atomically(fs::path(options.out) / "reproduction.json",
                        R"({"scale":"quick","device":"cpu","precision":"fp32","seeds":[]})");
  options.scale.chosen_seeds = {7};
  options.scale.reflection_steps = 1;  // the only work if the command were accepted
  EXPECT_NE(refusal([&] { reproduce(options); }).find("seeds [], asked for [7]"), std::string::npos)
      << refusal([&] { reproduce(options); });

  // Without measurements there is nothing to mix.
  fs::remove(probe);
  EXPECT_EQ(refusal([&] { reproduce(options); }), "");
}

// A first attempt that fails does not block the corrected command.
TEST(Reproduce, ChecksItsDeviceBeforeItMakesAFolder) {
  const TemporaryFolder folder;
  ReproduceOptions options{.out = (folder.path() / "r").string(), .only = {"reflection"}};
  if (!torch::cuda::is_available()) {
    options.hardware.device = "cuda";
    EXPECT_EQ(refusal([&] { reproduce(options); }),
              "[reproduce] device cuda was asked for, but there is none");
  }
  options.hardware = {.device = "cpu", .precision = "tf32"};
  EXPECT_EQ(refusal([&] { reproduce(options); }), "[reproduce] precision tf32 needs device cuda");
  EXPECT_FALSE(fs::exists(options.out));
}

TEST(Reproduce, StopsWhenItIsAskedToAndSaysSo) {
  const TemporaryFolder folder;
  auto scale = tiny_scale();
  const ReproduceOptions options{
      .out = folder.path().string(), .scale = scale, .only = {"theta"}, .jobs = 2};
  std::atomic<int> steps = 0;
  ReproduceListener listener;
  listener.stop = [&] { return ++steps > 5; };
  EXPECT_FALSE(reproduce(options, listener).has_value());
  EXPECT_FALSE(fs::exists(folder.path() / "results.json"));
  EXPECT_FALSE(fs::exists(folder.path() / "in_use.lock"));
}

TEST(Results, DamagedFilesAreNamedInOneLine) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "result.json").string();
  const auto refused = [&](const std::string& text) {
    write_file_atomically(path, text);
    return refusal([&] { read_result(folder.path().string()); });
  };
  const std::string good =
      R"({"parameters":3,"steps":4,"seconds":1.5,"diverged":false,"best_validation":null,"exact_best":1})";
  EXPECT_EQ(refused(good), "");
  for (const auto* key :
       {"parameters", "steps", "seconds", "diverged", "best_validation", "exact_best"}) {
    auto damaged = nlohmann::json::parse(good);
    damaged.erase(key);
    EXPECT_EQ(refused(damaged.dump()), fmt::format("[{}] '{}' is missing or invalid", path, key));
  }
  EXPECT_NE(refused("[1]"), "");
  const auto metrics = (folder.path() / "metrics.jsonl").string();
  write_file_atomically(metrics, "{\"step\":1}\n{\"loss\":1}\n");
  EXPECT_EQ(refusal([&] { read_metrics(folder.path().string()); }),
            fmt::format("[{}] line 2 has no step", metrics));
}

}  // namespace
}  // namespace geores
