#include "cli/puzzles/train_puzzles.h"

#include <fmt/format.h>

#include "cli/terminal/progress_bar.h"
#include "cli/terminal/stop_on_signal.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/train/puzzles/puzzle_trainer.h"

namespace geores::cli {

bool asks_for_puzzles(const PuzzleTraining& flags) {
  if (!flags.resume.empty()) return is_puzzle_run(flags.resume);
  if (const auto task = flags.given.find("task"); task != flags.given.end())
    return task->second == "puzzles";
  return !flags.config.empty() &&
         is_puzzle_config(parse_json(read_text_file(flags.config), flags.config));
}

int train_on_puzzles(const PuzzleTraining& flags, CommandGroup& group) {
  RunFolder folder{.path = flags.out, .overwrite = flags.overwrite};
  PuzzleConfig config;
  if (!flags.resume.empty()) {
    require(flags.out.empty() || flags.out == flags.resume, "train",
            "--resume {} continues in its own folder; omit --out {}", flags.resume, flags.out);
    folder = {.path = flags.resume, .resume = true};
    // Only rank 0 needs to see the folder.
    const auto text = group.text_of_first(
        group.is_first() ? read_puzzle_config(flags.resume).write().dump() : "");
    config.read(parse_json(text, flags.resume), flags.resume);
  }
  if (!flags.config.empty())
    config.read(parse_json(read_text_file(flags.config), flags.config), flags.config);
  config.read_texts(flags.given, "train");
  config.check();
  require(!folder.path.empty(), "train", "--out DIR (or --resume DIR) is required");

  const StopOnSignal stop;
  const auto data = puzzles::Dataset::open(config.data);
  ProgressBar bar(fmt::format("{} on {}", config.model.mixer, data.info().kind));
  Listener listener;
  if (group.is_first()) {
    listener.progress = [&](const Progress& p) {
      bar.show(p.step, p.total, p.seconds,
               fmt::format("loss {:.3e}", p.loss) +
                   (p.validation > 0 ? fmt::format(" test {:.3e}", p.validation) : ""));
    };
    listener.notice = [](const std::string& text) { say("geores: {}\n", text); };
  }
  listener.stop = StopOnSignal::requested;
  require_shares(config, group.size());
  const auto result =
      train_puzzles(config, data, folder, listener, group.communicator(config.device));
  if (result.interrupted && group.is_first()) {
    if (result.steps > 0)
      say("geores: stopped after {} steps; to go on: geores train --resume {}\n", result.steps,
          folder.path);
    else
      say("geores: stopped before the first step; nothing was written\n");
  }
  if (result.interrupted) return StopOnSignal::exit_code();
  if (!group.is_first()) return result.diverged ? 3 : 0;
  if (flags.json) {
    fmt::print("{}\n", result.to_json().dump(2));
    return result.diverged ? 3 : 0;
  }
  fmt::print("{}: {} parameters, {} steps, {:.1f} s, {:.4f} s a step\n", folder.path,
             result.parameters, result.steps, result.seconds, result.step_seconds);
  if (!result.diverged)
    fmt::print("test: {:.2f} % exact, {:.2f} % of the cells, loss {:.4f}\n",
               100 * result.evaluation["exact"].get<double>(),
               100 * result.evaluation["cells"].get<double>(),
               result.evaluation["lm_loss"].get<double>());
  return result.diverged ? 3 : 0;
}

}  // namespace geores::cli
