// Checks that the processes of a run agree before its first step.
#pragma once

#include <nlohmann/json.hpp>

#include "geores/train/training_step.h"

namespace geores {

// Throws in all processes if the configuration, the parameters (names and shapes), the number of
// threads (it changes the rounding of sums) or the data differ.
void require_same_run(const Communicator& communicator, const nlohmann::json& config,
                      const nlohmann::json& data, const torch::nn::Module& model);

// All state of the model: parameters and buffers.
std::vector<Tensor> tensors_of(const torch::nn::Module& model);

// Broadcasts integers from rank 0.
void broadcast_counts(const Communicator& communicator, std::vector<int64_t>& counts);

// The rows of this process in a batch that is split into equal parts, in order.
std::vector<int64_t> own_rows(const Communicator& communicator, const std::vector<int64_t>& batch);

// Refuses a batch size that is not divisible by processes × parts.
void require_divisible(int64_t processes, int64_t batch, int64_t parts, const char* name_of_parts);

}  // namespace geores
