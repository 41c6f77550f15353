// A ReadNormSpec as kernels take it.
#pragma once

#include "geores/kernels/routed/wide_streams.h"
#include "geores/ops/routed/wide.h"
#include "geores/ops/run/dispatch.h"

namespace geores::fused {

template <class T>
kernels::ReadNorm<T> read_norm(ReadNormSpec::Kind kind, double epsilon, const Tensor& weight) {
  return {.none = kind == ReadNormSpec::Kind::none,
          .norm = {.kind = kind == ReadNormSpec::Kind::layer ? kernels::NormKind::layer
                                                             : kernels::NormKind::rms,
                   .weight = values<T>(weight),
                   .bias = nullptr,
                   .eps = T(epsilon)}};
}

}  // namespace geores::fused
