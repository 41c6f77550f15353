// Trains one model on one data set. A run is a folder (run_folder.h). Killed at any moment and
// resumed, it gives bit for bit the run that was not killed.
//
// Several processes train together if each calls train() with the same arguments and its communicator.
// Batches are drawn for all of them and split by rows, so a run depends on its configuration, not on
// their number. Only rank 0 uses the folder and needs to have it.
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
  double best_validation = 0;  // best of the evaluations on random batches, that after the last
                               // step included
  int64_t best_step = 0;
  double final_validation = 0;  // random batches after the last step
  double exact_validation = 0;  // over the whole validation set, after the last step
  double exact_best = 0;        // the same with the weights of the best evaluation
  double train_loss = 0;        // of the last step
  double seconds = 0;           // earlier legs of a resumed run included
  bool diverged = false;        // stopped: a loss, a gradient or a weight was not finite
  bool interrupted = false;     // stopped because the listener asked for it; no result was written
  int64_t parameters = 0;

  nlohmann::json to_json() const;
};

// Called now and then on long work; step of total, and the latest numbers.
struct Progress {
  int64_t step = 0, total = 0;
  double loss = 0, validation = 0, seconds = 0;
};

// Who watches a run; each may be empty.
struct Listener {
  std::function<void(const Progress&)> progress;
  std::function<void(const std::string&)> notice;  // something a person should know, one line
  // Asked before every step. True: a checkpoint is written, and the run can be resumed.
  std::function<bool()> stop = {};
  // At each evaluation and after the last step, with the weights of that step: for diagnostics.
  // folder: where the run's files are then, which is not yet its own before the first checkpoint.
  std::function<void(int64_t step, Model& model, const std::filesystem::path& folder)> evaluated =
      {};
};

// A GPU's steps are recorded and read their numbers from tables (device/device_loop.h). On a CPU that
// is of use to tests alone.
enum class DeviceLoopOn { gpu, every_device };

TrainResult train(const TrainConfig& config, const Dataset& dataset, const RunFolder& folder,
                  const Listener& listener = {}, const Catalogue& catalogue = built_in(),
                  DeviceLoopOn device_loop = DeviceLoopOn::gpu,
                  const Communicator& communicator = one_process());

}  // namespace geores
