// Learning rate: linear warm-up from 0, then a cosine from `peak` to `floor`.
//   step < warmup:  peak · step/warmup            (0 at step 0)
//   the same as nanoGPT has it (from_zero = false):  peak · (step + 1)/(warmup + 1)
//   step <= total:  floor + ½(peak − floor)(1 + cos(π (step − warmup)/(total − warmup)))
#pragma once

#include <cstdint>

namespace geores {

struct Schedule {
  double peak = 1e-3;
  double floor = 1e-4;
  int64_t warmup = 100;
  int64_t total = 2000;
  bool from_zero = true;

  double at(int64_t step) const;
};

// JPmHC's factor of the learning rate at step t = 1, 2, …: linear warm-up, 1, ×0.316 from 80 % and
// ×0.1 from 90 % of all steps.
double step_decay(int64_t t, int64_t warmup, int64_t total);

}  // namespace geores
