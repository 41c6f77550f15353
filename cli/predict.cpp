#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands.h"
#include "geores/base/error.h"
#include "geores/storage/state_file.h"
#include "geores/train/run/run_folder.h"

namespace geores::cli {
namespace {

struct PredictFlags {
  std::string run, input, output, cache;
  bool stream = false;
};

Tensor read_input(const std::string& path, const InputShape& model) {
  auto x = load_npy_tensor(path);
  const auto tokens = model.tokens();
  require(x.dim() == (tokens ? 2 : 3), path, "expected {} axes {}, got {}", tokens ? 2 : 3,
          tokens ? "(sequences, positions)" : "(sequences, positions, values)", x.dim());
  require(x.size(0) > 0 && x.size(1) > 0, path, "holds no sequences");
  require(x.size(1) <= model.length, path,
          "sequences of {} are longer than the model's context of {}", x.size(1), model.length);
  if (tokens) {
    require(!x.is_floating_point(), path, "expected token ids, got floating-point values");
    x = x.to(torch::kInt64);
    require((x >= 0).all().item<bool>() && (x < model.vocabulary).all().item<bool>(), path,
            "token ids must be in 0..{}", model.vocabulary - 1);
    return x;
  }
  require(x.size(2) == model.width, path, "vectors of {} values, the model takes {}", x.size(2),
          model.width);
  x = x.to(torch::kFloat32);
  require(torch::isfinite(x).all().item<bool>(), path, "holds NaN or infinite values");
  return x;
}

void predict(const PredictFlags& flags) {
  const auto run = load_run(flags.run, flags.cache);
  run.config.task.require_sequences();
  auto& model = *run.model;
  const auto x = read_input(flags.input, model.input());
  torch::NoGradGuard no_grad;
  std::vector<Tensor> outputs;
  if (flags.stream) {
    const auto decoder = model.decoder(x.size(0));
    for (const auto& position : x.transpose(0, 1).contiguous().unbind(0))
      outputs.push_back(decoder->step(position).clone());  // the next step overwrites it
    save_npy_tensor(flags.output, torch::stack(outputs, 1));
  } else {
    for (const auto& part : x.split(64)) {
      Trace trace;
      outputs.push_back(model.predict(part, trace));
    }
    save_npy_tensor(flags.output, torch::cat(outputs));
  }
  fmt::print("{}: {} sequences of {}, weights of step {}\n", flags.output, x.size(0), x.size(1),
             run.step);
}

}  // namespace

void add_predict(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PredictFlags>();
  auto* command = app.add_subcommand(
      "predict",
      "Predict your own sequences with a run's best weights.\n"
      "Example: geores predict --run runs/gyro-edelta --input x.npy --output y.npy");
  command->add_option("--run", flags->run, "folder of the run")->required();
  command->add_option("--input", flags->input, ".npy (sequences, positions, values)")->required();
  command->add_option("--output", flags->output, ".npy to write")->required();
  command->add_flag("--stream", flags->stream,
                    "read one position at a time with cached state (causal models)");
  command->add_option("--cache", flags->cache,
                      "folder for generated data, for runs without a model.json");
  command->callback([flags, &exit_code] {
    predict(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
