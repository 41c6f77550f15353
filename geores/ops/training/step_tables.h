// The tables from which a recorded training step reads its numbers and into which it writes its
// results, indexed by a counter on the device: no data passes between host and device.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct StepTables {
  Tensor step;           // (1) int64
  Tensor batches;        // (window, batch) int64: which sequences; step's row is step mod window
  Tensor rates;          // (steps, any)
  Tensor losses, norms;  // (steps)
};

// Of a table of a window of steps, the index of this step's row; (1) int64.
Tensor row_of_step(const Tensor& step, int64_t window);

struct StepInput {
  Tensor x, y, rates;
};

// The sequences of this step's batch and its rates. On a GPU with products in bfloat16, x is
// returned in that type, because only a product reads it.
StepInput step_input(const StepTables& tables, const Tensor& x, const Tensor& y);

// Stores the results (0-dimensional) and advances to the next step.
void end_step(const StepTables& tables, const Tensor& loss, const Tensor& norm);

}  // namespace geores
