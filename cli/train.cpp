#include <fmt/format.h>

#include <memory>
#include <set>
#include <string>

#include "cli/commands.h"
#include "cli/field_flags.h"
#include "cli/progress_bar.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/nearest.h"
#include "geores/experiments/experiment.h"
#include "geores/train/trainer.h"

namespace geores::cli {
namespace {

struct TrainFlags {
  GivenFlags given;
  std::string preset, config, out, resume, cache;
  bool overwrite = false, json = false;
};

const Arm& find_preset(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& preset : presets()) {
    if (preset.name == name) return preset;
    known.push_back(preset.name);
  }
  fail("train", "unknown preset '{}'{}", name, did_you_mean(name, known));
}

// The configuration: defaults, then the preset, then the file, then the flags.
TrainConfig configuration(const TrainFlags& flags, TrainConfig config) {
  if (!flags.preset.empty()) config.read(find_preset(flags.preset).config, flags.preset);
  if (!flags.config.empty())
    config.read(parse_json(read_text_file(flags.config), flags.config), flags.config);
  std::set<std::string> own;
  const auto fields = config.fields();
  for (const auto& field : fields.all()) {
    own.insert(field.key);
    if (const auto found = flags.given.find(field.key); found != flags.given.end())
      field.set_from_text(found->second, "train");
  }
  const auto& connection = find_connection(config.model);
  for (const auto& [key, text] : flags.given)
    if (!own.contains(key)) config.options[key] = connection.option_from_text(key, text);
  return config;
}

int run_training(const TrainFlags& flags) {
  RunFolder folder{.path = flags.out, .overwrite = flags.overwrite};
  TrainConfig config;
  if (!flags.resume.empty()) {
    require(flags.out.empty() || flags.out == flags.resume, "train",
            "--resume {} continues in its own folder; leave out --out {}", flags.resume, flags.out);
    folder = {.path = flags.resume, .resume = true};
    config = read_run_config(flags.resume);
  }
  config = configuration(flags, config);
  require(!folder.path.empty(), "train", "--out DIR (or --resume DIR) is required");

  const auto dataset = load_dataset(config.task, flags.cache);
  ProgressBar bar(fmt::format("{} on {}", config.model, config.task.task));
  Listener listener;
  listener.progress = [&](const Progress& p) {
    bar.show(p.step, p.total, p.seconds,
             fmt::format("loss {:.3e} validation {:.3e}", p.loss, p.validation));
  };
  listener.notice = [](const std::string& text) { fmt::print(stderr, "geores: {}\n", text); };
  const auto result = train(config, dataset, folder, listener);
  if (flags.json) {
    fmt::print("{}\n", result.to_json().dump(2));
  } else {
    fmt::print("{}: {} parameters, {} steps, {:.1f} s\n", folder.path, result.parameters,
               result.steps, result.seconds);
    fmt::print("validation: best {:.4e} at step {} (random batches), whole set {:.4e} at the end\n",
               result.best_validation, result.best_step, result.exact_validation);
  }
  return result.diverged ? 3 : 0;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();
  auto* command = app.add_subcommand(
      "train",
      "Train any connection on any task. A run is a folder; killed at any moment, it is continued\n"
      "with --resume and gives bit for bit what it would have given.\n"
      "Examples:\n"
      "  geores train --task gyroscope --model edelta --seed 42 --out runs/gyro-edelta\n"
      "  geores train --resume runs/gyro-edelta\n"
      "  geores train --model jpmhc --mixer sinkhorn --width 512 --layers 7 --out runs/sinkhorn");
  command->add_option("--out", flags->out, "folder of the run");
  command->add_option("--resume", flags->resume, "continue the run in this folder");
  command->add_flag("--overwrite", flags->overwrite, "replace the run in --out");
  command->add_option("--preset", flags->preset,
                      "a model of the EΔ paper's tables, see `geores list`; flags change it");
  command->add_option("--config", flags->config, "JSON file with the same keys as the flags");
  command->add_option("--cache", flags->cache, "folder for generated data");
  command->add_flag("--json", flags->json, "machine-readable result");

  TrainConfig defaults;
  const auto fields = defaults.fields();
  std::set<std::string> seen;
  for (const auto& field : fields.all()) {
    add_flag_for(*command, flags->given, field.key, field.help, field.default_text, "Run");
    seen.insert(field.key);
  }
  for (const auto& connection : connections())
    for (const auto& option : connection.options)
      if (seen.insert(option.key).second)
        add_flag_for(*command, flags->given, option.key, option.help, option.default_text,
                     "Options of connections (`geores list NAME` tells which has which)");
  command->callback([flags, &exit_code] { exit_code = run_training(*flags); });
}

}  // namespace geores::cli
