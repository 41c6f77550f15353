// One gate under gradient descent: the effect of the gate loss of EΔ-MHC-Geo (arXiv:2605.06729) on
// γ = σ(b), while the task pulls with a constant slope t = dL_task/dγ:
//   L(γ) = λ 4γ(1 − γ) + tγ,   dL/db = (λ(4 − 8γ) + t) γ(1 − γ)
// For λ > 0, L is largest at the watershed γ* = ½ + t/(8λ), if γ* is in (0, 1), that is |t| < 4λ.
// Descent moves away from γ* to either side and never ends there. With t = 0 and exactly b = 0 the
// slope is zero and b stays.
//
// The step is plain descent or AdamW (Loshchilov & Hutter 2019), the scalar form of
// train/optimizer/adamw.h. Cost: a few operations a step.
#pragma once

#include "geores/manifold/hybrid.h"

namespace geores::manifold {

template <class T>
GEORES_HOST_DEVICE T gate_value(T logit) {
  return T(1) / (T(1) + exponential(-logit));
}

template <class T>
struct GateForces {
  T penalty_weight = T(0.1);  // λ
  T task_slope = T(0);        // t
};

template <class T>
GEORES_HOST_DEVICE constexpr T gate_landscape(T gamma, const GateForces<T>& forces) {
  return forces.penalty_weight * gate_penalty(gamma) + forces.task_slope * gamma;
}

// dL/dγ
template <class T>
GEORES_HOST_DEVICE constexpr T gate_slope(T gamma, const GateForces<T>& forces) {
  return forces.penalty_weight * gate_penalty_slope(gamma) + forces.task_slope;
}

// dL/db at the logit b.
template <class T>
GEORES_HOST_DEVICE T gate_logit_slope(T logit, const GateForces<T>& forces) {
  const T gamma = gate_value(logit);
  return gate_slope(gamma, forces) * gamma * (T(1) - gamma);
}

// The watershed γ*; NaN if γ* is outside (0, 1) or there is no penalty.
template <class T>
GEORES_HOST_DEVICE T gate_watershed(const GateForces<T>& forces) {
  const T top = T(0.5) + forces.task_slope / (T(8) * forces.penalty_weight);
  return forces.penalty_weight > T(0) && top > T(0) && top < T(1)
             ? top
             : static_cast<T>(__builtin_nan(""));
}

template <class T>
struct AdamWRates {
  T rate = T(1e-3);
  T first_decay = T(0.9);
  T second_decay = T(0.999);
  T epsilon = T(1e-8);
  T weight_decay = T(0.01);
};

template <class T>
struct AdamWMoments {
  T first = 0, second = 0;
  T first_power = 1, second_power = 1;  // b₁ᵗ and b₂ᵗ
};

template <class T>
GEORES_HOST_DEVICE T adamw_step(T parameter, T slope, AdamWMoments<T>& moments,
                                const AdamWRates<T>& rates) {
  parameter -= rates.rate * rates.weight_decay * parameter;
  moments.first = rates.first_decay * moments.first + (T(1) - rates.first_decay) * slope;
  moments.second =
      rates.second_decay * moments.second + (T(1) - rates.second_decay) * slope * slope;
  moments.first_power *= rates.first_decay;
  moments.second_power *= rates.second_decay;
  const T size = square_root(moments.second) / square_root(T(1) - moments.second_power);
  return parameter -
         rates.rate / (T(1) - moments.first_power) * moments.first / (size + rates.epsilon);
}

// Plain descent on the same two numbers.
template <class T>
GEORES_HOST_DEVICE constexpr T descent_step(T parameter, T slope, T rate, T weight_decay) {
  return parameter - rate * weight_decay * parameter - rate * slope;
}

}  // namespace geores::manifold
