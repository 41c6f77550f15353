// From the summary of each token (token_summary.h) to its operator, on a GPU, if there is one
// operator for each token. The perceptrons of generators.h read the summary side by side. Their
// hidden layers are one product of the BLAS library, with the rows of their weights packed:
//   hidden (tokens, columns) = summary (tokens, in) · packed (columns, in)ᵀ
// The kernels here do the rest. The columns are those of all hidden layers, the gate's if there is
// one, and zeros up to a multiple of 8. The kernel that reads a product adds its bias.
#pragma once

#include "geores/kernels/pooled/generators.h"

namespace geores::kernels {

// A block keeps the hidden units of its tokens in shared memory: those of all perceptrons together if
// they are few, else of one perceptron after the other. So the hidden layer of one is limited.
inline constexpr int kMostUnitsTogether = 512;
constexpr int64_t most_token_hidden(size_t bytes_of_a_value) {
  return static_cast<int64_t>(4096 / bytes_of_a_value);
}

constexpr int in_eights(int size) { return (size + 7) / 8 * 8; }
constexpr int hidden_columns(const GeneratorShape& s, bool gated) {
  return in_eights(s.units() + (gated ? 1 : 0));
}

// Packs the hidden layers and, if there is one, the gate into packed (hidden_columns, in). If
// packed_outputs (in_eights(outputs), hidden_columns) is not null, packs the output layers into it
// as a block-diagonal matrix: they are one product of all hidden units.
template <class T, class A>
void pack_perceptrons(CudaStream stream, const Generators<const T>& parameters, A* packed,
                      A* packed_outputs, const GeneratorShape& shape);

// From the gradient of a packed matrix to the gradients of the weights, which are added to.
template <class T>
void unpack_hidden(CudaStream stream, const T* dpacked, const Generators<T>& gradients,
                   const GeneratorShape& shape);
template <class T>
void unpack_outputs(CudaStream stream, const T* dpacked, const Generators<T>& gradients,
                    const GeneratorShape& shape);

// active = GELU(hidden + bias), with zeros beyond the units; both (tokens, columns).
template <class T, class A>
void hidden_gelu_forward(CudaStream stream, const Generators<const T>& parameters, const T* hidden,
                         A* active, const GeneratorShape& shape);

// Overwrites dhidden (tokens, columns), adds to the gradients of the hidden layers' biases.
template <class T, class A>
void hidden_gelu_backward(CudaStream stream, const Generators<const T>& parameters, const T* hidden,
                          const T* dactive, A* dhidden, const Generators<T>& gradients,
                          const GeneratorShape& shape);

// The hybrid operator of each token, from `hidden` with a gate. The output layers are small enough
// to be part of this kernel.
inline constexpr int kTokensAtOnce = 32;

// g (tokens, n, n); raw (tokens, all outputs), before activations; entropies (tokens) or null;
// penalty = penalty_weight · Σ 4γ(1 − γ) over each kTokensAtOnce tokens.
template <class T>
void token_hybrid_forward(CudaStream stream, const Generators<const T>& parameters, const T* hidden,
                          const T* entropies, T* raw, T* g, T* penalty, T penalty_weight, int n,
                          const GeneratorShape& shape);

// dpenalty with `dpenalty_stride` between values, or null. Overwrites dhidden (tokens, columns) and
// dentropies (tokens; or null). Adds to the gradients of biases and of output layers; unpack_hidden
// makes the gradients of the hidden weights and the gate.
template <class T, class A>
void token_hybrid_backward(CudaStream stream, const Generators<const T>& parameters,
                           const T* hidden, const T* entropies, const T* raw, const T* dg,
                           const T* dpenalty, int64_t dpenalty_stride, T penalty_weight, A* dhidden,
                           T* dentropies, const Generators<T>& gradients, int n,
                           const GeneratorShape& shape);

}  // namespace geores::kernels
