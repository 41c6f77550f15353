// Mixtures of all permutations of n streams (manifold/permutation.h), on a GPU: one thread for each token,
// n is one of is_device_mixer_size.
//   H = Σ_m softmax(logits)_m P_m      logits (tokens, n!), H (tokens, n, n)
#pragma once

#include "geores/kernels/mixers/mixers.h"

namespace geores::kernels {

template <class T>
void permutation_mixture_forward(CudaStream stream, const T* logits, T* h, const MixerShape& shape);

// Overwrites dlogits.
template <class T>
void permutation_mixture_backward(CudaStream stream, const T* logits, const T* dh, T* dlogits,
                                  const MixerShape& shape);

}  // namespace geores::kernels
