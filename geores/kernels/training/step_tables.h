// Tables of a recorded training step. The step's number and the tables are on the GPU. A kernel at
// the beginning of the step looks up the batch and the rates; a kernel at its end stores the
// results.
#pragma once

#include "geores/kernels/device.h"

namespace geores::kernels {

// The sequences of a data set: all of them (count, size), and space for those of a batch
// (sequences, size).
template <class T, class A>
struct Sequences {
  const T* all;
  int64_t size;
  A* taken;
};

// The sequences of each batch: table (window, sequences), where a step's row is step mod window.
struct BatchTable {
  const int64_t *step, *table;
  int64_t window, sequences;
};

// One row of a table (steps, size).
template <class T>
struct StepRow {
  const T* table;
  int64_t size;
  T* taken;
};

// Copies the current step's sequences and rates to `taken`: x in type A, which the next product
// takes.
template <class T, class A>
void take_step(CudaStream stream, const BatchTable& batches, const Sequences<T, A>& x,
               const Sequences<T, T>& y, const StepRow<T>& rates);

// losses[step] = loss, norms[step] = norm; then increments the step.
template <class T>
void end_step(CudaStream stream, int64_t* step, const T* loss, T* losses, const T* norm, T* norms);

}  // namespace geores::kernels
