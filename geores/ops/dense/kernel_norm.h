// A norm as kernels take it.
#pragma once

#include "geores/kernels/norms/norm.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/run/dispatch.h"

namespace geores::fused {

// Norm of the state.
template <class T>
kernels::Norm<T> state_norm(bool layer, const Tensor& weight, const Tensor& bias = {},
                            double epsilon = 1e-6) {
  return {.kind = layer ? kernels::NormKind::layer : kernels::NormKind::rms,
          .weight = values<T>(weight),
          .bias = values<T>(bias),
          .eps = T(layer ? 1e-5 : rms_epsilon(epsilon))};
}

}  // namespace geores::fused
