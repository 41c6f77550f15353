#include <gtest/gtest.h>

#include <filesystem>

#include "geores/base/file.h"
#include "geores/base/files/remove_folder.h"
#include "geores/model/transformer/parameter_budget.h"
#include "geores/model/transformer/transformer_kind.h"
#include "geores/testing/testing.h"
#include "geores/text/ngrams.h"
#include "geores/text/prepare.h"
#include "lab/experiments/language/language_report.h"
#include "lab/experiments/language/language_tables.h"
#include "lab/experiments/language/papers.h"
#include "lab/experiments/language/sweep.h"
#include "lab/experiments/language/verdicts.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

TEST(LanguagePapers, EveryArmIsAConnectionThatCanBeMade) {
  for (const auto& name : language_papers())
    for (const auto* scale : {"quick", "cpu", "gpu"}) {
      const auto paper = language_paper(name, scale, "data");
      for (const auto& experiment : paper.experiments)
        for (const auto& column : experiment.columns)
          for (const auto& arm : experiment.arms) {
            auto keys = arm.config;
            keys.update(column.config);
            if (arm.at.contains(column.name)) keys.update(arm.at.at(column.name));
            const auto what =
                paper.name + " " + experiment.name + " " + column.name + " " + arm.name;
            EXPECT_EQ(keys.at("width").get<int64_t>() % keys.at("heads").get<int64_t>(), 0) << what;
            EXPECT_GE(keys.at("steps").get<int64_t>(), keys.at("warmup").get<int64_t>()) << what;
            auto options = nlohmann::json::object();
            const auto& connection = find_connection(keys.at("connection").get<std::string>());
            for (const auto& option : connection.options)
              if (keys.contains(option.key)) options[option.key] = keys[option.key];
            EXPECT_NO_THROW(connection.make(
                {.width = 8, .streams = keys.value("streams", int64_t{4}), .options = options}))
                << what;
          }
      for (const auto& claim : paper.claims) {
        const auto& experiment = paper.experiment(claim.experiment);
        EXPECT_NO_THROW(experiment.column(claim.column)) << claim.text;
        EXPECT_NO_THROW(experiment.arm(claim.better)) << claim.text;
        EXPECT_NO_THROW(experiment.arm(claim.worse)) << claim.text;
      }
      for (const auto& experiment : paper.experiments)
        for (const auto& arm : experiment.arms) {
          const auto config =
              run_config(experiment.columns.front(), arm, 42, language_scale(scale), {});
          TrainConfig again;
          again.read(config.write(), arm.name);
          EXPECT_EQ(again.write(), config.write());
        }
    }
}

// Models of different depth have about the same size.
TEST(LanguagePapers, ModelsOfTheDepthExperimentHaveAboutTheSameSize) {
  for (const auto& [scale, vocabulary, size] :
       {std::tuple{"cpu", 65, 0.92e6}, {"gpu", 8192, 20e6}}) {
    const auto paper = language_paper("mgt", scale, "data");
    const auto& depth = paper.experiment("depth");
    for (const auto& column : depth.columns)
      for (const auto& arm : depth.arms) {
        const auto config = run_config(column, arm, 42, language_scale(scale), {});
        const auto parameters = [&](int64_t layers) {
          auto model = config.model;
          model.options["layers"] = layers;
          return static_cast<double>(parameter_count(
              *make_model(model, {.length = config.task.options.at("context").get<int64_t>(),
                                  .vocabulary = vocabulary})));
        };
        const auto one = parameters(1);
        const auto layers = config.model.options.at("layers").get<double>();
        const auto all = one + (layers - 1) * (parameters(2) - one);
        EXPECT_NEAR(all / size, 1, 0.065) << scale << " " << column.name << " " << arm.name;
      }
  }
}

// `geores params --width 0` finds the widths of the experiment.
TEST(LanguagePapers, WidthsOfTheDepthExperimentComeNearestToItsSize) {
  const auto paper = language_paper("mgt", "gpu", "data");
  const auto& depth = paper.experiment("depth");
  for (const auto& column : depth.columns)
    for (const auto* arm : {"pre", "mgt"}) {
      const auto width = depth.arm(arm).at.at(column.name).at("width").get<int64_t>();
      EXPECT_EQ(width_for({.connection = arm == std::string("mgt") ? "mgt" : "additive",
                           .input = "tokens",
                           .layers = column.config.at("layers").get<int64_t>(),
                           .heads = 8,
                           .context = 256,
                           .vocabulary = 8192},
                          20'000'000),
                width)
          << column.name << " " << arm;
    }
}

// All four rates of the paper, also those below its own. A name holds a hash of the configuration, and
// a finished run is found by its name: were one of these names to change, the runs that were trained
// under it would be trained again.
TEST(LanguagePapers, TheLanguageModelIsSweptOverAllRates) {
  auto paper = language_paper("mgt", "gpu", "data");
  paper.set_steps(300);
  const auto& language = paper.experiment("language");
  EXPECT_EQ(language.rates, (std::vector{1e-4, 3e-4, 1e-3, 3e-3}));
  std::vector<std::string> names;
  for (const auto& run : planned_runs({sweep_of(language)}, sweep_scale(language_scale("gpu")),
                                      {.device = "cuda", .precision = "bf16"}))
    names.push_back(run.name);
  for (const auto* trained : {"text-additive-d6ef748b-seed42", "text-additive-4939e198-seed42",
                              "text-mgt-bc62001e-seed42"})
    EXPECT_EQ(std::ranges::count(names, trained), 1) << trained;
}

// The experiment trains for one epoch; random windows would repeat parts of its text.
TEST(LanguagePapers, ReadOnceDrawsNoWindowTwice) {
  const auto paper = language_paper("shc", "cpu", "data");
  const auto& once = paper.experiment("read_once");
  for (const auto& arm : once.arms) {
    const auto task =
        run_config(once.columns.front(), arm, 42, language_scale("cpu"), {}).task.completed();
    EXPECT_EQ(task.options.at("sampling"), "epochs") << arm.name;
    EXPECT_EQ(task.options.at("data"), "data/books_bytes") << arm.name;
  }
}

TEST(LanguagePapers, RefuseUnknownNames) {
  EXPECT_EQ(refusal([] { language_paper("mgd", "quick", "data"); }),
            "[reproduce] unknown paper 'mgd', did you mean 'mgt'?");
  EXPECT_EQ(refusal([] { language_paper("mgt", "large", "data"); }),
            "[reproduce] scale must be quick, cpu or gpu for a language model, got 'large'");
  EXPECT_EQ(refusal([] { language_paper("shc", "gpu", "data").experiment("mixer"); }),
            "[reproduce] unknown experiment 'mixer', did you mean 'mixers'?");
}

// A paper in miniature on the copy task: every measure, two learning rates, four steps.
LanguagePaper tiny_paper() {
  const Column column{"copy",
                      "copy",
                      {{"task", "copy"},
                       {"length", 8},
                       {"vocabulary", 5},
                       {"train_sequences", 40},
                       {"validation_sequences", 20}}};
  const nlohmann::json common = {{"layers", 2},
                                 {"width", 8},
                                 {"heads", 2},
                                 {"streams", 2},
                                 {"steps", 4},
                                 {"batch", 4},
                                 {"warmup", 1},
                                 {"log_interval", 1},
                                 {"eval_interval", 2},
                                 {"eval_batches", 1},
                                 {"checkpoint_interval", 4},
                                 {"final_eval_batches", 1}};
  const auto arm = [&](const char* name, nlohmann::json options) {
    auto config = common;
    config.update(options);
    return Arm{name, name, config};
  };
  const nlohmann::json gate = {{"connection", "mgt"}, {"delta", false}},
                       delta = {{"connection", "mgt"}, {"rectify", false}},
                       mgt = {{"connection", "mgt"}};
  return {.name = "mgt",
          .title = "In miniature",
          .text = "Nothing.",
          .experiments = {{.name = "mixers",
                           .title = "Mixers",
                           .text = "",
                           .columns = {column},
                           .arms = {arm("additive", {{"connection", "additive"}}),
                                    arm("mhc", {{"connection", "mhc"}}),
                                    arm("shc", {{"connection", "shc"}})},
                           .rates = {1e-3, 1e-2},
                           .measures = {"mixers", "use", "ranks", "gradients", "accuracy"}},
                          {.name = "ablation",
                           .title = "Ablation",
                           .text = "",
                           .columns = {column},
                           .arms = {arm("pre", {{"connection", "additive"}}),
                                    arm("post", {{"connection", "additive"}, {"norm", "post"}}),
                                    arm("mhc", gate), arm("ddl", delta), arm("mgt", mgt)}},
                          {.name = "beta",
                           .title = "β",
                           .text = "",
                           .columns = {column},
                           .arms = {arm("start2", mgt)},
                           .measures = {"beta"}}},
          .claims = {{"mHC beats additive", "mixers", "copy", "mhc", "additive"}}};
}

TEST(LanguageReport, HoldsEveryTableAndFigureAndContinuesWhereItStopped) {
  const TemporaryFolder folder;
  LanguageOptions options{.out = (folder.path() / "report").string(), .jobs = 1};
  const auto findings = reproduce_language(tiny_paper(), options).value();
  const fs::path out = options.out;
  const auto document = make_language_report(findings);
  const auto page = document.to_markdown();
  EXPECT_EQ(read_text_file(out / "tables.md"), page);
  const auto &of_mixers = *findings.find("mixers"), &of_beta = *findings.find("beta"),
             &of_ablation = *findings.find("ablation");
  for (const auto& table :
       {verdict_table(findings), loss_table(findings, of_mixers), loss_table(findings, of_ablation),
        sweep_table(of_mixers.experiment, *findings.sweep("mixers")),
        mixer_table(findings, of_mixers), use_table(findings, of_mixers),
        rank_table(findings, of_mixers), synergy_table(of_ablation), beta_table(of_beta)}) {
    EXPECT_FALSE(table.rows.empty()) << table.explanation;
    EXPECT_EQ(std::ranges::count(document.tables(), table.rows, &Table::rows), 1)
        << table.explanation;
  }
  ASSERT_EQ(findings.made_with.size(), 1u);
  EXPECT_NE(page.find(*findings.made_with.begin()), std::string::npos);
  for (const auto* figure :
       {"mixers_training", "mixers_rank", "mixers_depth", "mixers_entries", "mixers_heat_mhc",
        "mixers_over_training", "mixers_gradients", "beta", "beta_heat", "beta_quantiles"})
    EXPECT_TRUE(fs::exists(out / "figures" / (std::string(figure) + ".svg"))) << figure;
  ASSERT_EQ(findings.sweeps.size(), 1u);
  EXPECT_EQ(findings.sweeps[0].experiment.arms.size(), 6u);
  EXPECT_EQ(findings.measured.size(), 3u + 1u);
  const auto results = nlohmann::json::parse(read_text_file(out / "results.json"));
  EXPECT_EQ(results["verdicts"].size(), 1u + 2 + 3);

  // An experiment on speed shows no losses.
  auto fast = findings;
  for (auto& one : fast.experiments) {
    one.experiment.for_speed = true;
    one.experiment.measures = {};
  }
  const auto losses = [](const LanguageFindings& all) {
    const auto text = make_language_report(all).to_markdown();
    return std::pair{text.find("| train |") != std::string::npos,
                     text.find("_training.svg") != std::string::npos};
  };
  EXPECT_EQ(losses(findings), std::pair(true, true));
  EXPECT_EQ(losses(fast), std::pair(false, false));

  // The arm at its best rate is the run of the sweep.
  const auto& mixers = *findings.find("mixers");
  for (const auto& arm : mixers.experiment.arms) {
    const auto rate = rate_of(arm, "copy");
    double best = 1e9, of_rate = 0;
    for (const auto one : {1e-3, 1e-2}) {
      const auto loss =
          findings.sweeps[0].cell("copy", fmt::format("{}@{:g}", arm.name, one)).exact.front();
      best = std::min(best, loss);
      if (one == rate) of_rate = loss;
    }
    EXPECT_EQ(of_rate, best) << arm.name;
    EXPECT_EQ(mixers.cell("copy", arm.name).exact.front(), best) << arm.name;
  }

  // The second call trains nothing and repeats the missing measurement.
  const auto one = findings.measured.begin()->first;
  fs::remove(out / "diagnostics" / (one + ".json"));
  // Stopped during a measurement, it ends without it.
  EXPECT_FALSE(reproduce_language(tiny_paper(), options,
                                  {.progress = {}, .notice = {}, .stop = [] { return true; }})
                   .has_value());
  EXPECT_FALSE(fs::exists(out / "diagnostics" / (one + ".json")));
  int64_t trained = 0;
  const auto again =
      reproduce_language(tiny_paper(), options,
                         {.progress = [&](const JobProgress&) { ++trained; }, .notice = {}})
          .value();
  EXPECT_EQ(again.measured.at(one), findings.measured.at(one));
  EXPECT_LE(trained, 2) << "one measurement";

  // Results may be copied without weights: measurements that need them are omitted.
  for (const auto* kind : {"runs", "diagnostics"})
    for (const auto& file : fs::recursive_directory_iterator(out / kind))
      if (file.path().extension() == ".safetensors" || kind == std::string("diagnostics"))
        fs::remove(file.path());
  EXPECT_EQ(reproduce_language(tiny_paper(), options).value().measured.size(), 0u);
}

// Experiments share runs, and request different measurements.
TEST(LanguageReport, MeasuresPartsThatAnEarlierCommandDidNotRequest) {
  const TemporaryFolder folder;
  LanguageOptions options{.out = (folder.path() / "report").string(), .jobs = 1};
  auto paper = tiny_paper();
  auto& beta = paper.experiments[2];
  options.only = {"beta"};
  const auto first = reproduce_language(paper, options).value().measured;
  ASSERT_EQ(first.size(), 1u);
  const auto& [run, before] = *first.begin();
  EXPECT_FALSE(before.at("end").contains("relative_rank"));
  int64_t jobs = 0;
  const auto again = [&] {
    jobs = 0;
    return reproduce_language(
               paper, options,
               {.progress = [&](const JobProgress& p) { jobs = p.total; }, .notice = {}})
        .value()
        .measured.at(run);
  };
  EXPECT_EQ(again(), before);
  EXPECT_EQ(jobs, 0) << "nothing is missing";
  beta.measures = {"ranks", "gradients", "beta"};
  const auto after = again();
  EXPECT_EQ(jobs, 1);
  EXPECT_TRUE(after.at("end").contains("relative_rank"));
  EXPECT_TRUE(after.contains("gradient_norms"));
  EXPECT_EQ(after.at("end").at("beta"), before.at("end").at("beta"));
  EXPECT_EQ(after.at("parts"), nlohmann::json({"beta", "ranks", "gradients"}));
  EXPECT_EQ(again(), after);
  EXPECT_EQ(jobs, 0);
}

// Several commands, some on other machines, fill one table: all finished runs count.
TEST(LanguageReport, IsMadeOfAllFinishedRunsOfTheFolder) {
  const TemporaryFolder folder;
  LanguageOptions options{.out = (folder.path() / "report").string(), .jobs = 1};
  options.only = {"ablation"};
  options.arms = {"pre"};
  options.seeds = {7};
  const auto first = reproduce_language(tiny_paper(), options).value();
  EXPECT_EQ(first.find("beta"), nullptr) << "nothing of it is trained";
  EXPECT_EQ(first.find("ablation")->cell("copy", "pre").runs.size(), 1u);
  options.seeds = {};
  options.arms = {"pre", "mgt"};
  reproduce_language(tiny_paper(), options);
  options.seeds = {7};
  options.report_only = true;
  const auto second = reproduce_language(tiny_paper(), options).value();
  EXPECT_EQ(second.find("ablation")->cell("copy", "pre").runs.size(), 2u);
  EXPECT_EQ(second.find("ablation")->cell("copy", "mgt").runs.size(), 1u);
  EXPECT_EQ(second.find("ablation")->cell("copy", "ddl").runs.size(), 0u);
  // Results without weights, as copied from another machine.
  for (const auto& run : fs::recursive_directory_iterator(fs::path(options.out) / "runs"))
    if (run.path().extension() == ".safetensors") fs::remove(run.path());
  EXPECT_NO_THROW(reproduce_language(tiny_paper(), options));

  // Seeds and rates of earlier commands stay in the report of a later one.
  options.report_only = false;
  options.seeds = {7};
  options.rates = {2e-2};
  options.only = {"mixers"};
  options.arms = {"mhc"};
  reproduce_language(tiny_paper(), options);
  options.seeds = {42};
  options.rates = {};
  options.arms = {"additive"};
  const auto later = reproduce_language(tiny_paper(), options).value();
  const auto& with_seven = later.find("mixers")->cell("copy", "mhc");
  EXPECT_EQ(std::ranges::count(with_seven.seeds, 7), 1);
  EXPECT_EQ(later.sweep("mixers")->cell("copy", "mhc@0.02").runs.size(), 1u);

  options.steps = 5;
  EXPECT_NE(
      refusal([&] { reproduce_language(tiny_paper(), options); }).find("choose another --out"),
      std::string::npos);
  options.arms = {"mgtt"};
  options.out += "2";
  EXPECT_EQ(
      refusal([&] { reproduce_language(tiny_paper(), options); }),
      "[reproduce] experiment mixers has none of the data sets or models that were asked for");
}

// A claim about a table without its last column is judged at the last trained one, and its text
// names it.
TEST(LanguageReport, JudgesAClaimInTheLastColumnThatIsTrained) {
  auto paper = tiny_paper();
  paper.claims = {{"mHC beats additive", "mixers", "deep", "mhc", "additive"}};
  ExperimentFindings mixers;
  mixers.experiment = paper.experiment("mixers");
  mixers.experiment.columns = {{"shallow", "2 layers", {}}, {"deep", "9 layers", {}}};
  for (const auto& arm : mixers.experiment.arms) {
    mixers.cells["deep"][arm.name] = {};
    mixers.cells["shallow"][arm.name].exact =
        arm.name == "mhc" ? std::vector{1.0, 1.1, 0.9} : std::vector{3.0, 3.1, 2.9};
  }
  const auto verdict =
      language_verdicts(
          {.paper = paper, .scale = "", .hardware = {}, .folder = "", .experiments = {mixers}})
          .at(0);
  EXPECT_NE(verdict.claim.find("2 layers"), std::string::npos) << verdict.claim;
  EXPECT_EQ(verdict.verdict, "holds");
}

TEST(LanguageReport, JudgesRanksAtTheDepthThatIsMeasured) {
  const auto paper = language_paper("mgt", "gpu", "data");
  LanguageFindings findings{
      .paper = paper, .scale = "", .hardware = {}, .folder = "", .experiments = {}};
  ExperimentFindings rank;
  rank.experiment = paper.experiment("rank");
  for (const auto& column : rank.experiment.columns)
    for (const auto& arm : rank.experiment.arms) rank.cells[column.name][arm.name] = {};
  for (const double value : {0.41, 0.42, 0.43}) {
    const auto name = fmt::format("run-{}", value);
    rank.cells["L24"]["mgt"].runs.push_back("runs/" + name);
    findings.measured[name]["end"]["relative_rank"]["plain"] = {0.9, value};
  }
  findings.experiments = {rank};
  const auto verdicts = language_verdicts(findings);
  const auto found = std::ranges::find_if(
      verdicts, [](const Verdict& one) { return one.claim.starts_with("H2"); });
  ASSERT_NE(found, verdicts.end());
  EXPECT_NE(found->claim.find("24 layers"), std::string::npos) << found->claim;
  EXPECT_EQ(found->verdict, "reversed");
}

// A text that only the last experiment needs is checked before the first one is trained.
TEST(LanguageReport, AMissingTextIsRefusedBeforeAnythingIsTrained) {
  const TemporaryFolder folder;
  auto paper = tiny_paper();
  paper.experiments.back().columns = {
      {"text", "text", text_task(folder.path().string(), "books", 8)}};
  const LanguageOptions options{.out = (folder.path() / "report").string(), .jobs = 1};
  EXPECT_NE(refusal([&] { reproduce_language(paper, options); }).find("books is not there"),
            std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path() / "report" / "runs"));
}

// Models and n-gram tables are scored on the same ids, which the report names.
TEST(LanguageReport, SaysWhichPartOfATextIsScored) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("line {} of it\n", i * i % 97);
  write_file_atomically(folder.path() / "a.txt", text);
  prepare_text({.input = {(folder.path() / "a.txt").string()},
                .out = (folder.path() / "lines").string(),
                .tokenizer = "chars"});
  auto paper = tiny_paper();
  paper.experiments = {paper.experiment("mixers")};
  auto& experiment = paper.experiments.front();
  experiment.rates = {};
  experiment.measures = {"text", "other_texts"};
  fs::create_directories(folder.path() / "lines-other");
  write_file_atomically(folder.path() / "lines-other/README", "no text");
  experiment.columns = {{"copy", "lines", text_task(folder.path().string(), "lines", 8, 100)}};
  // An experiment on speed has no losses.
  auto speed = experiment;
  speed.name = "speed";
  speed.for_speed = true;
  speed.columns[0].config["validation_ids"] = 50;
  for (auto& arm : speed.arms) arm.config["batch"] = 1;
  paper.experiments.push_back(speed);
  const LanguageOptions options{.out = (folder.path() / "report").string(), .jobs = 1};
  const auto findings = reproduce_language(paper, options).value();
  ASSERT_EQ(findings.ngrams.size(), 1u);
  EXPECT_EQ(findings.ngrams.begin()->first, "lines, first 100 ids");
  const auto prepared = PreparedText::open((folder.path() / "lines").string());
  EXPECT_EQ(findings.ngrams.begin()->second,
            ngram_losses(prepared.split("train").ids(), prepared.split("val").ids().first(100),
                         prepared.vocabulary(), 6));
  for (const auto& run : planned_runs({paper.experiments[0]}, language_scale("quick"), {})) {
    const auto& measured = findings.measured.at(run.name);
    EXPECT_EQ(measured["text"]["ids"], 100);
    EXPECT_EQ(measured["text"]["bytes"], 100);
    EXPECT_EQ(measured["text"]["words"],
              count_words(prepared.tokenizer()->decode(prepared.split("val").ids().first(100))));
  }
  const auto page = read_text_file(fs::path(options.out) / "tables.md");
  const auto scored = scored_part(paper.experiments[0]);
  auto unlimited = paper.experiments[0];
  unlimited.columns[0].config.erase("validation_ids");
  EXPECT_NE(scored.find("100"), std::string::npos) << scored;
  EXPECT_NE(page.find(scored), std::string::npos);
  EXPECT_EQ(page.find(scored_part(unlimited)), std::string::npos);

  // Another text under the same name: finished runs do not belong to it.
  const auto again = [&] { reproduce_language(paper, options); };
  EXPECT_EQ(refusal(again), "");
  const auto folder_of_text = (folder.path() / "lines").string();
  write_file_atomically(folder.path() / "a.txt", text + text);
  remove_folder(folder_of_text);
  prepare_text(
      {.input = {(folder.path() / "a.txt").string()}, .out = folder_of_text, .tokenizer = "chars"});
  EXPECT_NE(refusal(again).find("was trained on a text that has changed since"), std::string::npos);
}

TEST(LanguageReport, SynergyIsOfEachSeed) {
  ExperimentFindings ablation{tiny_paper().experiments[1], {}, {}};
  const auto set = [&](const char* arm, std::vector<double> losses, std::vector<int64_t> seeds) {
    ablation.cells["copy"][arm].exact = std::move(losses);
    ablation.cells["copy"][arm].seeds = std::move(seeds);
  };
  set("pre", {3, 4}, {42, 123});
  set("mhc", {2.5, 3.5}, {42, 123});
  set("ddl", {2.75, 3}, {42, 123});
  set("mgt", {2, 2.25}, {42, 123});
  EXPECT_EQ(synergy(ablation, "copy", "pre"), (std::vector<double>{0.25, 0.25}));
  set("pre", {4, 3}, {123, 42});
  EXPECT_EQ(synergy(ablation, "copy", "pre"), (std::vector<double>{0.25, 0.25}));
  set("ddl", {2}, {123});  // seed 42 diverged
  EXPECT_EQ(synergy(ablation, "copy", "pre"), (std::vector<double>{-0.75}));
  set("ddl", {2}, {456});
  EXPECT_TRUE(synergy(ablation, "copy", "pre").empty());
}

}  // namespace
}  // namespace geores
