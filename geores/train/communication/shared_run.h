// What the processes of a run agree on before its first step.
#pragma once

#include <nlohmann/json.hpp>

#include "geores/train/training_step.h"

namespace geores {

// Refuses, in all processes, another configuration, other parameters (names and shapes), another
// number of threads (sums would be rounded differently) or other data.
void require_same_run(const Communicator& communicator, const nlohmann::json& config,
                      const nlohmann::json& data, const torch::nn::Module& model);

// All that the model holds: parameters and buffers.
std::vector<Tensor> tensors_of(const torch::nn::Module& model);

// Rank 0's whole numbers.
void broadcast_counts(const Communicator& communicator, std::vector<int64_t>& counts);

// A batch is split into equal parts, in order: the rows of this process.
std::vector<int64_t> own_rows(const Communicator& communicator, const std::vector<int64_t>& batch);

// Refuses a batch that does not split into processes × parts.
void require_divisible(int64_t processes, int64_t batch, int64_t parts, const char* name_of_parts);

}  // namespace geores
