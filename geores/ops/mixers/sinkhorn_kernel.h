// Converts a SinkhornSpec for the kernels in log space.
#pragma once

#include "geores/kernels/mixers/mixers.h"
#include "geores/ops/mixers/sinkhorn.h"

namespace geores::fused {

template <class T>
kernels::LogSinkhorn<T> log_sinkhorn(const SinkhornSpec& spec) {
  return {.iterations = static_cast<int>(spec.iterations),
          .bound = T(spec.logit_bound),
          .unrolled = spec.gradient == SinkhornGradient::unrolled,
          .rows_last = spec.order == SinkhornOrder::rows_last};
}

}  // namespace geores::fused
