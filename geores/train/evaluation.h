// The validation loss of a model: over random batches, and exactly over a whole set. Several
// processes share the work: rank i mod size evaluates batch i. The results are summed in the order
// of the batches, so they have the same bits for any number of processes.
#pragma once

#include <functional>
#include <vector>

#include "geores/model/model.h"
#include "geores/ops/torch.h"
#include "geores/train/communication/communicator.h"

namespace geores {

struct EvaluationBatch {
  std::vector<int64_t> rows;    // sequences
  std::vector<double> weights;  // weight of each in the mean; over all batches they sum to 1
};

// The batches to evaluate for the mean over `drawn` random batches of one size. Where the loss is a
// mean over sequences (Model::weighs_sequences), a sequence that was drawn several times is
// evaluated once with a larger weight. Otherwise, as with cross entropy over the positions that
// have a target, the batches stay as drawn.
std::vector<EvaluationBatch> evaluation_batches(const std::vector<std::vector<int64_t>>& drawn,
                                                bool weighs_sequences);

// The mean loss over `drawn` batches of the set x, y, never in bfloat16.
double loss_over_batches(Model& model, const Tensor& x, const Tensor& y,
                         const std::vector<std::vector<int64_t>>& drawn,
                         const Communicator& communicator = one_process());

// Mean loss over the whole set in fixed batches: MSE, or cross entropy for tokens.
double exact_loss(Model& model, const Tensor& x, const Tensor& y, int64_t batch = 64,
                  const Communicator& communicator = one_process());

// The mean squared error of predicted vectors at each position, over the whole set. Their mean is
// exact_loss().
std::vector<double> errors_by_position(Model& model, const Tensor& x, const Tensor& y,
                                       int64_t batch = 64);

// A loss as a sum over terms.
struct LossSum {
  double sum = 0;
  int64_t terms = 0;

  double mean() const { return sum / static_cast<double>(terms); }
};

// Evaluates `count` batches; loss(i) evaluates one.
LossSum sum_over_batches(int64_t count, const Communicator& communicator,
                         const std::function<Objective(int64_t)>& loss);

// The sequences with these indices.
Batch rows_of(const Tensor& x, const Tensor& y, const std::vector<int64_t>& rows);

}  // namespace geores
