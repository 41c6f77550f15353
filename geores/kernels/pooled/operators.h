// Batches of n × n operators from their generators, on the templates of manifold/: a few hundred
// operations for each operator.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// The generators of a hybrid operator, or their gradients: u, v, k (operators, n), beta, gamma
// (operators).
template <class T>
struct HybridArrays {
  T *u, *v, *k, *beta, *gamma;
};

// G = γ Q(u, v, β) + (1 − γ)(I − 2kkᵀ) with k as given, not normalized: g (operators, n, n), n one
// of sizes.h.
template <class T>
void hybrid_operators_forward(const HybridArrays<const T>& generators, T* g, int64_t operators,
                              int64_t n);

template <class T>
void hybrid_operators_backward(const HybridArrays<const T>& generators, const T* dg,
                               const HybridArrays<T>& gradients, int64_t operators, int64_t n);

// The same from generators before their activations, raw (operators, 3n + 1) = [u | v | β | k] and
// gate logits (operators): β goes through softplus, k is normalized, γ is a sigmoid. Forward only.
template <class T>
void hybrid_from_raw(const T* raw, const T* logits, T* g, int64_t operators, int64_t n);

// On a GPU; n is one of is_device_mixer_size.
template <class T>
void hybrid_operators_forward(CudaStream stream, const HybridArrays<const T>& generators, T* g,
                              int64_t operators, int64_t n);
template <class T>
void hybrid_operators_backward(CudaStream stream, const HybridArrays<const T>& generators,
                               const T* dg, const HybridArrays<T>& gradients, int64_t operators,
                               int64_t n);

}  // namespace geores::kernels
