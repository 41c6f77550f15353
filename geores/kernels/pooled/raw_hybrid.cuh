// The hybrid operator from the raw outputs of its perceptrons, before activations, forward and
// backward.
#pragma once


#include "geores/kernels/cuda/activations.cuh"
#include "geores/kernels/sizes.h"
#include "geores/manifold/hybrid.h"

namespace geores::kernels::device {

// The generators of a hybrid operator from raw outputs [u | v | β | k].
template <int N, class T>
struct RawHybrid {
  manifold::HybridGenerators<T, N> p;
  T norm;  // the divisor of k

  __device__ RawHybrid(const T* raw, T gamma) {
    T squares = 0;
    for (int i = 0; i < N; ++i) {
      p.u[i] = raw[i];
      p.v[i] = raw[N + i];
      p.k[i] = raw[2 * N + 1 + i];
      squares += p.k[i] * p.k[i];
    }
    norm = sqrt(squares);
    if (!(norm > T(kSmallestNorm))) norm = T(kSmallestNorm);
    for (int i = 0; i < N; ++i) p.k[i] /= norm;
    p.beta = softplus(raw[2 * N]);
    p.gamma = gamma;
  }
};

template <class T>
struct Gate {
  T logit, entropy, gamma;
};

// γ = σ(logit · (1 + entropy)).
template <class T>
__device__ inline Gate<T> gate_from(T logit, T entropy) {
  return {logit, entropy, sigmoid(logit * (T(1) + entropy))};
}

template <class T>
struct GateGradient {
  T logit, entropy;
};

// From dg (n, n) and dpenalty, the gradient of 4γ(1 − γ), to draw and the gradients of the gate.
template <int N, class T>
__device__ inline GateGradient<T> raw_hybrid_backward(const T* raw, const Gate<T>& gate,
                                                      const T* dg, T dpenalty, T* draw) {
  const RawHybrid<N, T> hybrid(raw, gate.gamma);
  manifold::Matrix<T, N> cotangent;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) cotangent(i, j) = dg[i * N + j];
  const auto d = manifold::hybrid_operator_backward(hybrid.p, cotangent);
  T along = 0;
  for (int i = 0; i < N; ++i) along += hybrid.p.k[i] * d.k[i];
  if (!(hybrid.norm > T(kSmallestNorm))) along = T(0);
  for (int i = 0; i < N; ++i) {
    draw[i] = d.u[i];
    draw[N + i] = d.v[i];
    draw[2 * N + 1 + i] = (d.k[i] - along * hybrid.p.k[i]) / hybrid.norm;
  }
  draw[2 * N] = d.beta * softplus_slope(raw[2 * N]);
  const T dgamma = d.gamma + dpenalty * manifold::gate_penalty_slope(gate.gamma);
  const T dscaled = dgamma * gate.gamma * (T(1) - gate.gamma);
  return {dscaled * (T(1) + gate.entropy), dscaled * gate.logit};
}

// f(number of streams) if an operator of that size is compiled here.
template <class F>
void with_operator_size(int n, F&& f) {
  with_count(DeviceStreams(), n, f);
}

}  // namespace geores::kernels::device
