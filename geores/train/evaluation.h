// The mean loss over random batches of sequences, with each sequence evaluated once.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace geores {

using torch::Tensor;

struct EvaluationBatch {
  std::vector<int64_t> rows;    // sequences
  std::vector<double> weights;  // of each in the mean; over all batches they sum to 1
};

// What to evaluate for the mean over `drawn` batches of one size. A squared error is a mean over
// sequences, so one that was drawn several times is taken once, with as much weight: drawn from a
// small set, most are repetitions. Cross entropy is a mean over those positions of a batch that
// have a target: there the batches stay as they were drawn.
std::vector<EvaluationBatch> evaluation_batches(const std::vector<std::vector<int64_t>>& drawn,
                                                const Tensor& targets);

// What a batch adds to the mean, from the model's prediction; weights (batch) float64. The result
// is float64, 0-dimensional.
Tensor weighted_loss(const Tensor& prediction, const Tensor& target, const Tensor& weights);

}  // namespace geores
