// The validation loss of a model: over random batches, and exactly over a whole set. Several processes
// share the work: batch i is that of rank i mod size. What batches add to the result is put together
// in the order of the batches, so it has the same bits for any number of processes.
#pragma once

#include <functional>
#include <vector>

#include "geores/model/model.h"
#include "geores/ops/torch.h"
#include "geores/train/communication/communicator.h"

namespace geores {

struct EvaluationBatch {
  std::vector<int64_t> rows;    // sequences
  std::vector<double> weights;  // of each in the mean; over all batches they sum to 1
};

// What to evaluate for the mean over `drawn` batches of one size. Where the loss is a mean over
// sequences (Model::weighs_sequences), one that was drawn several times is taken once, with as much
// weight: drawn from a small set, most are repetitions. Elsewhere, as with cross entropy over those
// positions of a batch that have a target, the batches stay as they were drawn.
std::vector<EvaluationBatch> evaluation_batches(const std::vector<std::vector<int64_t>>& drawn,
                                                bool weighs_sequences);

// The mean loss over `drawn` batches of the set x, y, never in bfloat16.
double loss_over_batches(Model& model, const Tensor& x, const Tensor& y,
                         const std::vector<std::vector<int64_t>>& drawn,
                         const Communicator& communicator = one_process());

// Mean loss over the whole set in fixed batches: MSE, or cross entropy for tokens.
double exact_loss(Model& model, const Tensor& x, const Tensor& y, int64_t batch = 64,
                  const Communicator& communicator = one_process());

// Of predicted vectors: the mean squared error at each position, over the whole set. Their mean is exact_loss().
std::vector<double> errors_by_position(Model& model, const Tensor& x, const Tensor& y,
                                       int64_t batch = 64);

// A loss as a sum over terms.
struct LossSum {
  double sum = 0;
  int64_t terms = 0;

  double mean() const { return sum / static_cast<double>(terms); }
};

// Of `count` batches; loss(i) evaluates one.
LossSum sum_over_batches(int64_t count, const Communicator& communicator,
                         const std::function<Objective(int64_t)>& loss);

// The sequences of these numbers.
Batch rows_of(const Tensor& x, const Tensor& y, const std::vector<int64_t>& rows);

}  // namespace geores
