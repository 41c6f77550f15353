#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/lab/lab.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/stop_on_signal.h"
#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "lab/experiments/language/verdicts.h"
#include "lab/experiments/reproduce.h"

namespace geores::cli {
namespace {

struct ReproduceFlags {
  ReproduceOptions options;
  std::string paper = "edelta", scale = "quick", data = "data";
  std::vector<int64_t> seeds;
  std::vector<double> rates;
  int64_t steps = 0;
  bool report_only = false;
  std::string shard;

  bool language() const { return paper != "edelta"; }

  ReproduceOptions edelta() const {
    auto chosen = options;
    chosen.scale = scale_from(scale);
    chosen.scale.chosen_seeds = seeds;
    return chosen;
  }
};

LanguageOptions language_options(const ReproduceFlags& flags) {
  const auto& common = flags.options;
  return {.paper = flags.paper,
          .scale = flags.scale,
          .data = flags.data,
          .out = common.out,
          .hardware = common.hardware,
          .only = common.only,
          .columns = common.columns,
          .arms = common.arms,
          .seeds = flags.seeds,
          .rates = flags.rates,
          .steps = flags.steps,
          .jobs = common.jobs,
          .cache = common.cache,
          .report_only = flags.report_only};
}

void print_summary(const Findings& findings) {
  for (const auto& one : findings.judgements()) {
    const auto test = one.measured.known() ? fmt::format("p = {:.2g}", one.measured.p)
                                           : std::string("too few seeds to test");
    fmt::print("{:<9} {} ({:.2f} ×, {})\n", one.verdict, one.claim.text, one.measured_ratio, test);
  }
}

void print_summary(const LanguageFindings& findings) {
  for (const auto& one : language_verdicts(findings))
    fmt::print("{:<9} {} ({}; {})\n", one.verdict, one.claim, one.numbers, one.test);
}

// False: stopped.
bool reproduce_paper(const ReproduceFlags& flags, const ReproduceListener& listener,
                     std::unique_ptr<ProgressBar>& bar) {
  const auto finish = [&](const auto& findings) {
    bar.reset();
    if (findings) print_summary(*findings);
    return findings.has_value();
  };
  if (flags.language()) return finish(reproduce_language(language_options(flags), listener));
  require(
      flags.rates.empty() && flags.steps == 0 && !flags.report_only, "reproduce",
      "--rates, --steps and --report-only are for language models: --paper mgt, shc or nanogpt");
  return finish(reproduce(flags.edelta(), listener));
}

int run_reproduction(const ReproduceFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  auto bar = std::make_unique<ProgressBar>("training");
  ReproduceListener listener;
  listener.progress = [&](const JobProgress& progress) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    bar->show(progress.done, progress.total, elapsed.count(), progress.current);
  };
  listener.notice = [](const std::string& text) { say("geores: {}\n", text); };
  const StopOnSignal stop;
  listener.stop = StopOnSignal::requested;
  if (!flags.shard.empty()) {
    require(!flags.language(), "reproduce", "--shard is for --paper edelta");
    const bool done = reproduce_shard(flags.edelta(), shard_from(flags.shard), listener);
    bar.reset();
    if (done)
      fmt::print(
          "shard {} is in {}; when all are done: geores reproduce --merge FOLDER ... --out "
          "OTHER, with the other flags as here\n",
          flags.shard, flags.options.out);
    else
      say("geores: stopped; the same command goes on from here\n");
    return done ? 0 : StopOnSignal::exit_code();
  }
  if (!reproduce_paper(flags, listener, bar)) {
    say("geores: stopped; the same command goes on from here\n");
    return StopOnSignal::exit_code();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{} in {:.0f} s\n", (std::filesystem::path(flags.options.out) / "index.html").string(),
             elapsed.count());
  return 0;
}

}  // namespace

void add_reproduce(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReproduceFlags>();
  auto& options = flags->options;
  auto* command = app.add_subcommand(
      kReproduce.name,
      fmt::format(
          "{}\n"
          "With trivial baselines, controls and t-tests. Writes OUT/index.html (opens offline),\n"
          "OUT/tables.md and OUT/results.json. Killed, it continues with the missing work when\n"
          "started again with the same --out.\n"
          "  quick   small models and data, minutes on two cores; not comparable with the paper\n"
          "  paper   of edelta, as published: for a GPU, or days on a CPU\n"
          "  cpu     of language models: small ones with three seeds, hours on two cores\n"
          "  gpu     of language models: for a GPU\n"
          "Papers: edelta; mgt, shc and nanogpt, which train on texts that `geores data text` has\n"
          "prepared in --data (shakespeare_char; at scale gpu also wiki2 and books, for read_once\n"
          "books_bytes). Their learning rates are swept for every arm first. A command may train "
          "a\n"
          "part of their tables; the report has all finished runs of --out.\n"
          "Experiments of edelta for --only: {};\n"
          "of mgt: rank, ablation, beta, depth, language, copy; of shc: mixers, mixers_6e-4,\n"
          "controls, manifolds, one_stream, geometry, streams, many_streams, at scale cpu also\n"
          "read_once; of nanogpt: cpu, parity.\n"
          "Examples:\n"
          "  geores reproduce --scale quick --out report\n"
          "  geores reproduce --scale paper --device cuda --precision bf16 --jobs 16 --out "
          "report-paper\n"
          "  geores reproduce --paper mgt --only copy --out report-mgt\n"
          "  geores reproduce --paper shc --scale gpu --device cuda --precision bf16 --only "
          "mixers\n"
          "    --rates 6e-4 --seeds 42 --steps 500 --jobs 3 --out report-shc\n"
          "  geores reproduce --only theta reflection --out report-theta\n"
          "  geores reproduce --only start --out report-start     (not among all: past the paper)\n"
          "  geores reproduce --only start_maps --columns gyroscope near_pi --out report-maps\n"
          "  geores reproduce --only gate_weight --seeds 1 2 3 4 5 6 --out report-seeds\n"
          "Several machines without a network between them:\n"
          "  geores reproduce --shard 1/2 --out part1         (and 2/2 into part2 elsewhere)\n"
          "  geores reproduce --merge part1 part2 --out report",
          kReproduce.about, fmt::join(experiment_names(), ", ")));
  command->add_option("--paper", flags->paper, "edelta, mgt, shc or nanogpt")
      ->capture_default_str()
      ->check(CLI::IsMember({"edelta", "mgt", "shc", "nanogpt"}));
  command->add_option("--scale", flags->scale, "quick; paper (edelta); cpu, gpu (the others)")
      ->capture_default_str();
  command->add_option("--data", flags->data, "language models: folder of prepared texts")
      ->capture_default_str();
  command->add_option("--rates", flags->rates, "language models: learning rates to sweep");
  command->add_option("--steps", flags->steps, "language models: steps of a run")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_flag("--report-only", flags->report_only,
                    "language models: train nothing, write the report of the finished runs");
  command->add_option("--out", options.out, "folder of the report")->capture_default_str();
  command->add_option("--only", options.only, "some experiments instead of all");
  command->add_option("--columns", options.columns, "some data sets of the experiments in --only");
  command->add_option("--arms", options.arms, "some models of the experiments in --only");
  command->add_option("--seeds", flags->seeds,
                      "train with these instead of the paper's 42, 123 and 456");
  command->add_option("--jobs", options.jobs, "runs side by side")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_option("--device", options.hardware.device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option("--precision", options.hardware.precision,
                   "of products: fp32 or bf16, on a GPU also tf32 and bf16_state")
      ->capture_default_str()
      ->check(CLI::IsMember(precision_names()));
  command->add_option("--cache", options.cache, "folder for generated data");
  auto* shard = command->add_option("--shard", flags->shard,
                                    "i/N: do only the i-th of N parts, and write no report");
  command->add_option("--merge", options.merge, "folders of shards whose results are copied")
      ->excludes(shard);
  command->callback([flags, &exit_code] { exit_code = run_reproduction(*flags); });
}

}  // namespace geores::cli
