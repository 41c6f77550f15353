// Trains one model on one data set. A run is a folder (run_folder.h). A run that was killed at any
// moment and resumed has bit for bit the result of an uninterrupted run.
//
// Several processes train together if each calls train() with the same arguments and its
// communicator. Batches are drawn for all of them and split by rows, so a run depends on its
// configuration, not on the number of processes. Only rank 0 uses the folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "geores/train/communication/communicator.h"
#include "geores/train/run/run_folder.h"
#include "geores/train/run/train_config.h"

namespace geores {

struct TrainResult {
  int64_t steps = 0;
  double best_validation = 0;  // best evaluation on random batches, including the last one
  int64_t best_step = 0;
  double final_validation = 0;  // random batches after the last step
  double exact_validation = 0;  // over the whole validation set, after the last step
  double exact_best = 0;        // the same with the weights of the best evaluation
  double train_loss = 0;        // of the last step
  double seconds = 0;           // earlier legs of a resumed run included
  bool diverged = false;        // a loss, a gradient or a weight was not finite
  bool interrupted = false;     // stopped by the listener; no result was written
  int64_t parameters = 0;       // without a table
  double step_seconds = 0;      // of a training step, without evaluations and checkpoints

  // Of puzzles, instead of the losses above: the last line of training, and the scores of the
  // averaged weights over all test rows after the last step.
  nlohmann::json training = nullptr, evaluation = nullptr;

  // The contents of result.json.
  nlohmann::json to_json(Method method = Method::sequences) const;
};

// Progress of long work, called now and then: step, total, and the latest numbers.
struct Progress {
  int64_t step = 0, total = 0;
  double loss = 0, validation = 0, seconds = 0;
};

// Callbacks of a run; each may be empty.
struct Listener {
  std::function<void(const Progress&)> progress;
  std::function<void(const std::string&)> notice;  // a message for the user, one line
  // Asked before every step. True: a checkpoint is written, and the run can be resumed.
  std::function<bool()> stop = {};
  // Called at each evaluation and after the last step, with the weights of that step, for
  // diagnostics. folder: where the run's files are at that moment; before the first checkpoint that
  // is the starting folder.
  std::function<void(int64_t step, Model& model, const std::filesystem::path& folder)> evaluated =
      {};
};

// On a GPU, steps are recorded and read their numbers from tables (device/device_loop.h). Only
// tests do so on a CPU.
enum class DeviceLoopOn { gpu, every_device };

TrainResult train(const TrainConfig& config, const Dataset& dataset, const RunFolder& folder,
                  const Listener& listener = {}, const Catalogue& catalogue = built_in(),
                  DeviceLoopOn device_loop = DeviceLoopOn::gpu,
                  const Communicator& communicator = one_process());

}  // namespace geores
