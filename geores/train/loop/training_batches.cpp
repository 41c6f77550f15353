#include "geores/train/loop/training_batches.h"

#include "geores/data/batch_sampler.h"
#include "geores/data/epoch_sampler.h"
#include "geores/ops/training/sequences.h"
#include "geores/train/evaluation.h"
#include "geores/train/loop/draws.h"
#include "geores/train/puzzles/puzzle_batch.h"

namespace geores {
namespace {

class Sequences : public TrainingBatches {
 public:
  explicit Sequences(const DeviceData& data) : data_(data) {}
  Batch batch(const std::vector<int64_t>& rows) const final {
    return rows_of(data_.train_x, data_.train_y, rows);
  }

 private:
  const DeviceData& data_;
};

class RandomSequences final : public Sequences {
 public:
  RandomSequences(const TrainConfig& config, const DeviceData& data)
      : Sequences(data),
        sampler_(static_cast<uint64_t>(config.seed), data.train_x.size(0)),
        size_(config.batch) {}
  std::vector<int64_t> rows(int64_t step) override {
    return sampler_.indices(kTrainingBatches, step, size_);
  }

 private:
  BatchSampler sampler_;
  int64_t size_;
};

class TextByEpochs final : public Sequences {
 public:
  TextByEpochs(const TrainConfig& config, const Dataset& dataset, const DeviceData& data)
      : Sequences(data),
        sampler_(static_cast<uint64_t>(config.seed), dataset.train_ids.size(0), dataset.length()),
        size_(config.batch) {}
  std::vector<int64_t> rows(int64_t step) override { return sampler_.offsets(step, size_); }

 private:
  EpochSampler sampler_;
  int64_t size_;
};

class Puzzles final : public TrainingBatches {
 public:
  Puzzles(const TrainConfig& config, const puzzles::Dataset& data)
      : split_(data.train()), order_(split_, static_cast<uint64_t>(config.seed), config.batch) {}
  std::vector<int64_t> rows(int64_t step) override { return order_.rows(step); }
  Batch batch(const std::vector<int64_t>& rows) const override {
    return to_tensors(split_.batch(rows));
  }
  bool made_on_host() const override { return true; }
  std::optional<int64_t> epoch(int64_t step) override { return order_.epoch(step); }

 private:
  const puzzles::Split& split_;
  puzzles::TrainingOrder order_;
};

}  // namespace

DeviceData data_on(const torch::Device& device, const Dataset& dataset) {
  if (dataset.puzzle_set) return {};
  return {.train_x = sequences_on(dataset.train_x, device),
          .train_y = sequences_on(dataset.train_y, device),
          .validation_x = sequences_on(dataset.validation_x, device),
          .validation_y = sequences_on(dataset.validation_y, device)};
}

std::unique_ptr<TrainingBatches> training_batches(const TrainConfig& config, const Dataset& dataset,
                                                  const DeviceData& data) {
  if (dataset.puzzle_set) return std::make_unique<Puzzles>(config, *dataset.puzzle_set);
  if (dataset.by_epochs) return std::make_unique<TextByEpochs>(config, dataset, data);
  return std::make_unique<RandomSequences>(config, data);
}

}  // namespace geores
