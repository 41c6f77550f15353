// Where a run stands, as one safetensors file written atomically: the model's state, the
// optimiser's moments, the carry, the position. The one before it is kept beside it: if the newest
// is damaged, the run goes on from there and says so.
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
  double train_loss = 0;  // of the last step that was looked at
};

void save_checkpoint(const std::string& folder, const Model& model, TrainingStep& training,
                     const RunPosition& position);

// False if there is none. `notice` is told when the newest one could not be used.
bool load_checkpoint(const std::string& folder, Model& model, TrainingStep& training,
                     RunPosition& position, const std::function<void(const std::string&)>& notice);

}  // namespace geores
