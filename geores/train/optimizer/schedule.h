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

}  // namespace geores
