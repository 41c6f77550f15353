// The tables that a recorded training step looks its numbers up in and leaves its results in, by a
// counter that lies on the device with them: nothing passes between host and device.
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

// The sequences of this step's batch and its rates. On a GPU, where products are in bfloat16, x is
// given in that type: nothing but a product reads it.
StepInput step_input(const StepTables& tables, const Tensor& x, const Tensor& y);

// Keeps the results (0-dimensional) and goes on to the next step.
void end_step(const StepTables& tables, const Tensor& loss, const Tensor& norm);

}  // namespace geores
