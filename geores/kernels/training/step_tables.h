// What a recorded training step looks up by its number, which lies on the GPU like the tables, and
// what it leaves there: a kernel where it begins and one where it ends.
#pragma once

#include "geores/kernels/device.h"

namespace geores::kernels {

// Sequences of a data set: all (count, size), and room for those of a batch (sequences, size).
template <class T, class A>
struct Sequences {
  const T* all;
  int64_t size;
  A* taken;
};

// Which sequences a batch has: table (steps, sequences).
struct BatchTable {
  const int64_t *step, *table;
  int64_t sequences;
};

// One row of a table (steps, size).
template <class T>
struct StepRow {
  const T* table;
  int64_t size;
  T* taken;
};

// x is taken in type A, as a product wants it.
template <class T, class A>
void take_step(CudaStream stream, const BatchTable& batches, const Sequences<T, A>& x,
               const Sequences<T, T>& y, const StepRow<T>& rates);

// losses[step] = loss, norms[step] = norm, and then the next step.
template <class T>
void end_step(CudaStream stream, int64_t* step, const T* loss, T* losses, const T* norm, T* norms);

}  // namespace geores::kernels
