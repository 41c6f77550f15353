#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "cli/commands.h"
#include "cli/field_flags.h"
#include "cli/processes/in_group.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/stop_on_signal.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/nearest.h"
#include "geores/data/validation_sample.h"
#include "geores/model/recursive/recursive_kind.h"
#include "geores/residual/registry.h"
#include "geores/train/run/presets.h"
#include "geores/train/trainer.h"
#include "lab/diagnostics/diagnostics_log.h"

namespace geores::cli {
namespace {

struct TrainFlags {
  GivenFlags given;
  std::string preset, config, out, resume, cache;
  bool overwrite = false, json = false;
  int64_t diagnostics_interval = 0;
  GroupFlags group;
};

// The configuration: defaults, then the preset, then the file, then the flags.
TrainConfig configuration(const TrainFlags& flags, TrainConfig config) {
  if (!flags.preset.empty()) config.read(preset(flags.preset, "train").config, flags.preset);
  if (!flags.config.empty())
    config.read(parse_json(read_text_file(flags.config), flags.config), flags.config);
  config.read_texts(flags.given, "train");
  return config;
}

bool connection_has(const std::string& key) {
  for (const auto& connection : connections())
    for (const auto& option : connection.options)
      if (option.key == key) return true;
  return false;
}

// Attention with dropout takes memory, and on a CPU it is not fused: worth knowing before hours of it.
void warn_about_dropout(const TrainConfig& config) {
  const auto options = config.model.completed().options;
  const auto rate = options.value("dropout", nlohmann::json());
  if (rate.is_number() && rate.get<double>() > 0)
    say("geores: with dropout, attention keeps the weights of all pairs of positions in memory, "
        "and on a CPU it runs composed\n");
}

// The configuration of the run to resume. Only rank 0 needs to see its folder.
TrainConfig config_to_resume(const std::string& path, CommandGroup& group) {
  nlohmann::json found;
  if (group.is_first()) {
    require(holds_run(path), "train", "{} holds no run to resume", path);
    found = read_run_config(path).write();
  }
  const auto text = group.text_of_first(found.dump());
  TrainConfig config;
  config.read(parse_json(text, path), path);
  return config;
}

// "edelta on gyroscope", "cayley on sudoku"
std::string title_of(const TrainConfig& config, const Dataset& dataset) {
  if (!dataset.puzzle_set) return fmt::format("{} on {}", config.model.label(), config.task.name);
  return fmt::format("{} on {}", recursive_options(config.model).mixer,
                     dataset.puzzle_set->info().kind);
}

void print(const TrainResult& result, const std::string& folder, Method method) {
  fmt::print("{}: {} parameters, {} steps, {:.1f} s", folder, result.parameters, result.steps,
             result.seconds);
  if (method == Method::sequences) {
    fmt::print(
        "\nvalidation: best {:.4e} at step {} (random batches), whole set {:.4e} at the end\n",
        result.best_validation, result.best_step, result.exact_validation);
    return;
  }
  fmt::print(", {:.4f} s a step\n", result.step_seconds);
  if (!result.diverged)
    fmt::print("test: {:.2f} % exact, {:.2f} % of the cells, loss {:.4f}\n",
               100 * result.evaluation["exact"].get<double>(),
               100 * result.evaluation["cells"].get<double>(),
               result.evaluation["lm_loss"].get<double>());
}

int run_training(const TrainFlags& flags, CommandGroup& group) {
  RunFolder folder{.path = flags.out, .overwrite = flags.overwrite};
  TrainConfig config;
  if (!flags.resume.empty()) {
    require(flags.out.empty() || flags.out == flags.resume, "train",
            "--resume {} continues in its own folder; omit --out {}", flags.resume, flags.out);
    folder = {.path = flags.resume, .resume = true};
    config = config_to_resume(flags.resume, group);
  }
  config = configuration(flags, config);
  require(!folder.path.empty(), "train", "--out DIR (or --resume DIR) is required");

  const StopOnSignal stop;
  const auto dataset = load_dataset(config.task, flags.cache);
  complete_from_data(config, dataset);
  // Before they connect: a process that refuses and goes looks lost to those that are still connecting.
  require_trainable(config, group.size());
  if (group.is_first()) warn_about_dropout(config);
  ProgressBar bar(title_of(config, dataset));
  Listener listener;
  listener.stop = StopOnSignal::requested;
  if (group.is_first()) {
    listener.progress = [&](const Progress& p) {
      const auto validation =
          p.validation == 0 ? "" : fmt::format(" validation {:.3e}", p.validation);
      bar.show(p.step, p.total, p.seconds, fmt::format("loss {:.3e}{}", p.loss, validation));
    };
    listener.notice = [](const std::string& text) { say("geores: {}\n", text); };
  }
  if (flags.diagnostics_interval > 0) config.task.require_sequences();
  if (flags.diagnostics_interval > 0 && group.is_first())
    listener.evaluated = [log = std::make_shared<DiagnosticsLog>(
                              validation_sample(dataset, kDiagnosedSequences).x, DiagnosedParts{},
                              flags.diagnostics_interval, config.steps)](
                             int64_t step, Model& model, const std::filesystem::path& run) {
      log->measure(step, model, run);
    };
  const auto result = train(config, dataset, folder, listener, built_in(), DeviceLoopOn::gpu,
                            group.communicator(config.device));
  if (result.interrupted && group.is_first()) {
    if (result.steps > 0)
      say("geores: stopped after {} of {} steps; to go on: geores train --resume {}\n",
          result.steps, config.steps, folder.path);
    else
      say("geores: stopped before the first step; nothing was written\n");
  }
  if (result.interrupted) return StopOnSignal::exit_code();
  if (!group.is_first()) return result.diverged ? 3 : 0;
  if (flags.json)
    fmt::print("{}\n", result.to_json(config.method()).dump(2));
  else
    print(result, folder.path, config.method());
  return result.diverged ? 3 : 0;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();
  auto* command = app.add_subcommand(
      "train",
      "Train any connection on any task. A run is a folder; killed at any moment, it is continued\n"
      "with --resume and gives the uninterrupted run's result bit for bit.\n"
      "Examples:\n"
      "  geores train --task gyroscope --model edelta --seed 42 --out runs/gyro-edelta\n"
      "  geores train --resume runs/gyro-edelta\n"
      "  geores train --model jpmhc --mixer sinkhorn --width 512 --layers 7 --out runs/sinkhorn\n"
      "  geores train --task text --data data/books --model shc --layers 12 --width 384 --heads 6\n"
      "    --context 512 --out runs/books                   (a language model, "
      "docs/guides/language_models.md)\n"
      "  geores train --task puzzles --data sudoku6 --mixer cayley --layout expand --width 128\n"
      "    --steps 4000 --batch 256 --out runs/sudoku6      (a recursive model, "
      "docs/guides/recursive_model.md)");
  command->add_option("--out", flags->out, "folder of the run");
  command->add_option("--resume", flags->resume, "continue the run in this folder");
  command->add_flag("--overwrite", flags->overwrite, "replace the run in --out");
  command->add_option("--preset", flags->preset,
                      "a model of the EΔ paper's tables, see `geores list`; flags change it");
  command->add_option("--config", flags->config, "JSON file with the same keys as the flags");
  command->add_option("--cache", flags->cache, "folder for generated data");
  command->add_flag("--json", flags->json, "machine-readable result");
  command
      ->add_option("--diagnostics-interval", flags->diagnostics_interval,
                   "at evaluations whose step is a multiple of it, write mixers, ranks and β to "
                   "diagnostics.jsonl; 0: never [0]")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  add_group_flags(*command, flags->group);

  // Several tasks, models or connections may have an option of one name, each with its own default.
  std::set<std::string> seen;
  const auto help_of_tasks = [](const std::string& key) {
    std::string help;
    for (const auto& task : tasks())
      for (const auto& option : task.options.all())
        if (option.key == key && help.find(option.help) == std::string::npos)
          help += (help.empty() ? "" : "; ") + option.help;
    return help;
  };
  const auto add = [&](const OptionDescription& option, const char* group, bool with_default) {
    if (seen.insert(option.key).second)
      add_flag_for(*command, flags->given, option.key, option.help,
                   with_default ? option.default_text : "", group);
  };
  add({"task", "what to learn, see `geores list`", TaskConfig().name, {}}, "Run", true);
  add({"model",
       "kind of model, or a connection of the transformer, see `geores list`",
       ModelConfig().kind,
       {}},
      "Run", true);
  for (const auto& option : OptionSet::of<TrainConfig>().all()) add(option, "Run", true);
  for (const auto& kind : model_kinds())
    for (const auto& option : kind.options({}).all())
      if (!connection_has(option.key)) add(option, "Model", true);
  for (const auto& task : tasks())
    for (auto option : task.options.all()) {
      option.help = help_of_tasks(option.key);
      add(option, "Options of tasks (`geores list --json` lists them)", false);
    }
  for (const auto& kind : model_kinds())
    for (const auto& option : kind.all_options().all())
      add(option, "Options of connections (`geores list NAME` lists them)", true);
  for (const auto& option : OptionSet::of(TrainConfig("puzzles")).all())
    add(option, "Options of task puzzles", true);
  command->callback([flags, &exit_code] {
    exit_code =
        in_group(flags->group, [&](CommandGroup& group) { return run_training(*flags, group); });
  });
}

}  // namespace geores::cli
