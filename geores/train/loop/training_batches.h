// The batches that a run trains on, as a function of seed and step, so that a resumed run needs
// nothing but its step: which rows a step takes (its order), and their values.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "geores/train/run/train_config.h"

namespace geores {

// Sequences on the device of the run. Rows that are made when they are asked for have none.
struct DeviceData {
  Tensor train_x, train_y, validation_x, validation_y;
};
DeviceData data_on(const torch::Device& device, const Dataset& dataset);

class TrainingBatches {
 public:
  virtual ~TrainingBatches() = default;

  // The rows of the whole batch of a step = 0, 1, …
  virtual std::vector<int64_t> rows(int64_t step) = 0;

  // The values of these rows, on any device.
  virtual Batch batch(const std::vector<int64_t>& rows) const = 0;

  // Whether batch() makes its values on the host, anew for each step.
  virtual bool made_on_host() const { return false; }

  // The epoch in which the batch of a step ends, if epochs are counted.
  virtual std::optional<int64_t> epoch(int64_t /*step*/) { return std::nullopt; }
};

// `data` and `dataset` must outlive it.
std::unique_ptr<TrainingBatches> training_batches(const TrainConfig& config, const Dataset& dataset,
                                                  const DeviceData& data);

}  // namespace geores
