// From what an operator sees of each token (token_summary.h) to the operator, on a GPU, where there
// is one for each token. The perceptrons of generators.h read it side by side: their hidden layers
// are one product of the BLAS library, with the rows of their weights packed,
//   hidden (tokens, columns) = summary (tokens, in) · packed (columns, in)ᵀ
// and what follows is here. The columns are those of all hidden layers, the gate's where there is
// one, and zeros up to a multiple of 8. Biases are added by who reads a product.
#pragma once

#include "geores/kernels/pooled/generators.h"

namespace geores::kernels {

inline constexpr int kMostTokenUnits = 512;  // hidden units, together

constexpr int in_eights(int size) { return (size + 7) / 8 * 8; }
constexpr int hidden_columns(const GeneratorShape& s, bool gated) {
  return in_eights(s.units() + (gated ? 1 : 0));
}

// packed (hidden_columns, in) of hidden layers and, where there is one, the gate. Where it is not
// null, packed_outputs (in_eights(outputs), hidden_columns) of output layers, block-diagonal: they
// are one product of all hidden units.
template <class T, class A>
void pack_perceptrons(CudaStream stream, const Generators<const T>& parameters, A* packed,
                      A* packed_outputs, const GeneratorShape& shape);

// From the gradient of a packed matrix to those of the weights, which are added to.
template <class T>
void unpack_hidden(CudaStream stream, const T* dpacked, const Generators<T>& gradients,
                   const GeneratorShape& shape);
template <class T>
void unpack_outputs(CudaStream stream, const T* dpacked, const Generators<T>& gradients,
                    const GeneratorShape& shape);

// active = GELU(hidden + bias), zeros beyond the units, both (tokens, columns).
template <class T, class A>
void hidden_gelu_forward(CudaStream stream, const Generators<const T>& parameters, const T* hidden,
                         A* active, const GeneratorShape& shape);

// dhidden (tokens, columns) is overwritten, the gradients of the hidden layers' biases are added
// to.
template <class T, class A>
void hidden_gelu_backward(CudaStream stream, const Generators<const T>& parameters, const T* hidden,
                          const T* dactive, A* dhidden, const Generators<T>& gradients,
                          const GeneratorShape& shape);

// The hybrid operator of each token, from `hidden` with a gate; output layers are small enough to
// be part of it.
inline constexpr int kTokensAtOnce = 32;

// g (tokens, n, n); raw (tokens, all outputs), before activations; entropies (tokens) or null;
// penalty = penalty_weight · Σ 4γ(1 − γ) over each kTokensAtOnce tokens.
template <class T>
void token_hybrid_forward(CudaStream stream, const Generators<const T>& parameters, const T* hidden,
                          const T* entropies, T* raw, T* g, T* penalty, T penalty_weight, int n,
                          const GeneratorShape& shape);

// dpenalty with `dpenalty_stride` between values, or null. dhidden (tokens, columns) and dentropies
// (tokens; or null) are overwritten. The gradients of biases and of output layers are added to; the
// rest are unpack_hidden's.
template <class T, class A>
void token_hybrid_backward(CudaStream stream, const Generators<const T>& parameters,
                           const T* hidden, const T* entropies, const T* raw, const T* dg,
                           const T* dpenalty, int64_t dpenalty_stride, T penalty_weight, A* dhidden,
                           T* dentropies, const Generators<T>& gradients, int n,
                           const GeneratorShape& shape);

}  // namespace geores::kernels
