// Table 18 of the EΔ paper, norm preservation of trained models, in the published form and in two
// more informative ones. The deviation of a prediction is |‖ŷ_t‖/‖x_t‖ − 1|, averaged.
// random      on i.i.d. unit vectors, as published. A model that copies its input scores 0; one
//                             that averages, which is correct on the stability task, scores 0.81 at
//               length 100.
//   validation  on the task's own validation data
// roll-out    on the model's predictions fed back, step after step: the drift of the norm
#pragma once

#include <nlohmann/json.hpp>

#include "geores/data/dataset.h"
#include "geores/model/model.h"

namespace geores {

// The column of the main table whose models are rolled out; the correct state there is constant.
inline constexpr auto kRolloutColumn = "stability";

struct NormConfig {
  int64_t random_sequences = 50;
  int64_t random_length = 100;  // at most the length of the data
  int64_t rollouts = 100;
  int64_t rollout_steps = 10000;
  int64_t window = 32;  // states that the model sees at each step of a roll-out
};

// {"random", "validation", "rollout": [{"step", "norm", "error"}, ...]}: steps 1, 2, 5, 10, ... of
// the roll-out, mean norm, and mean squared distance per value to the mean of the start.
nlohmann::json measure_norms(Model& model, const Dataset& data, const NormConfig& config);

// The deviation on random unit vectors of the running mean: 1 − mean of 1/√(t + 1).
double running_mean_deviation(int64_t length);

}  // namespace geores
