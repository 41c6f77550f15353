#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/terminal/output.h"
#include "geores/base/file.h"
#include "geores/data/validation_sample.h"
#include "geores/train/run/run_folder.h"
#include "lab/diagnostics/inspect.h"

namespace geores::cli {
namespace {

struct InspectFlags {
  std::string run, cache;
  int64_t sequences = 8;
  bool json = false;
  std::string page;
};

void inspect_run(const InspectFlags& flags) {
  const auto run = load_run(flags.run, flags.cache);
  run.config.task.require_sequences();
  const auto data = load_dataset(run.config.task, flags.cache);
  const auto inspection = inspect(*run.model, validation_sample(data, flags.sequences).x);
  const auto title = fmt::format("{}: {} on {}, step {}", flags.run, run.config.model.label(),
                                 run.config.task.name, run.step);
  if (flags.json) {
    auto object = inspection.to_json();
    object["run"] = flags.run;
    object["task"] = run.config.task.name;
    object["step"] = run.step;
    fmt::print("{}\n", object.dump(2));
  } else {
    fmt::print("{}\n\n{}", title, inspection.to_table());
  }
  if (!flags.page.empty()) {
    write_file_atomically(flags.page, to_page(inspection, title));
    say("wrote {}\n", flags.page);
  }
  if (save_mixers(inspection, flags.run))
    say("wrote {}; see geores spectrum --mixer run:{}\n",
        (std::filesystem::path(flags.run) / "mixers.safetensors").string(), flags.run);
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  auto* command = app.add_subcommand(
      "inspect",
      "Inspect a trained model on its validation data.\n"
      "A block does x -> R x + branch: R is the residual operator of the connection. Reported are\n"
      "  operators   gate, strength and angle; how far R is from orthogonal; the directions it\n"
      "              loses (sigma_min near 0); how much the product of all R amplifies\n"
      "  states      size, effective rank and likeness of streams after every block\n"
      "  Jacobians   singular values from the first to the last state at one position, with the\n"
      "              sublayers and with the residual path alone\n"
      "with a warning in plain words where something is singular or grows.\n"
      "Mean stream mixers go to RUN/mixers.safetensors, where `geores spectrum --mixer run:RUN`\n"
      "finds them.\n"
      "Examples:\n"
      "  geores inspect --run runs/gyro-edelta\n"
      "  geores inspect --run runs/gyro-edelta --page inspect.html\n"
      "  geores inspect --run runs/gyro-edelta --json | jq '.operators[].gamma.mean'");
  command->add_option("--run", flags->run, "folder of a finished or interrupted run")->required();
  command->add_option("--sequences", flags->sequences, "validation sequences to measure on")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_option("--cache", flags->cache, "folder for generated data");
  command->add_flag("--json", flags->json, "machine-readable result, with every singular value");
  command->add_option("--page", flags->page, "write charts and tables here (HTML, opens offline)");
  command->callback([flags, &exit_code] {
    inspect_run(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
