// The state of a run as one safetensors file, written atomically: the model's state, the
// optimiser's moments, the average of the parameters, the carry, the position. The previous checkpoint is kept: if the newest is
// damaged, the run continues from it and reports this.
#pragma once

#include <functional>
#include <limits>
#include <string>

#include "geores/train/training_step.h"

namespace geores {

struct RunPosition {
  int64_t step = 0;  // steps taken
  int64_t best_step = -1;
  double best_validation = std::numeric_limits<double>::infinity();
  double train_loss = 0;  // of the last step that was read back
};

// With `keep_newest` the newest checkpoint becomes the previous one. Set it only for a checkpoint
// that this process wrote or read successfully: a damaged one would replace a good one.
void save_checkpoint(const std::string& folder, const Model& model, TrainingStep& training,
                     const RunPosition& position, bool keep_newest);

enum class FoundCheckpoint { none, newest, previous };

// `notice` is told when the newest one could not be used. Without a notice that is an error: the weights
// before it are not those that were asked for.
FoundCheckpoint load_checkpoint(const std::string& folder, Model& model, TrainingStep& training,
                                RunPosition& position,
                                const std::function<void(const std::string&)>& notice);

// Whether all weights and moments are finite. A checkpoint holds no others.
bool is_finite(TrainingStep& training);

}  // namespace geores
