// Batches of n × n operators from their generators, through manifold/: a few hundred operations
// each.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// What a hybrid operator is made of, or the gradients: u, v, k (operators, n), beta, gamma
// (operators).
template <class T>
struct HybridArrays {
  T *u, *v, *k, *beta, *gamma;
};

// G = γ Q(u, v, β) + (1 − γ)(I − 2kkᵀ), k as given: g (operators, n, n), n one of sizes.h.
template <class T>
void hybrid_operators_forward(const HybridArrays<const T>& generators, T* g, int64_t operators,
                              int64_t n);

template <class T>
void hybrid_operators_backward(const HybridArrays<const T>& generators, const T* dg,
                               const HybridArrays<T>& gradients, int64_t operators, int64_t n);

// The same from generators before their activations, raw (operators, 3n + 1) = [u | v | β | k] and
// gate logits (operators): β softplus, k normalized, γ sigmoid. Forward only.
template <class T>
void hybrid_from_raw(const T* raw, const T* logits, T* g, int64_t operators, int64_t n);

// On a GPU, n one of is_device_mixer_size.
template <class T>
void hybrid_operators_forward(CudaStream stream, const HybridArrays<const T>& generators, T* g,
                              int64_t operators, int64_t n);
template <class T>
void hybrid_operators_backward(CudaStream stream, const HybridArrays<const T>& generators,
                               const T* dg, const HybridArrays<T>& gradients, int64_t operators,
                               int64_t n);

}  // namespace geores::kernels
