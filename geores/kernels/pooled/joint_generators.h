// From the summary of a sequence (summary.h) to its operator by one perceptron, on a GPU: the generators
// of EΔ-Stream. With a = LN(mean of the sequence),
//   [u | v | β | k | logit] = Perceptron(a),   G = γ Q(u, v, β) + (1 − γ)(I − 2kkᵀ),   γ = σ(logit)
// A block computes one sequence; a second kernel sums the gradients of the perceptron's parameters over
// the sequences.
#pragma once

#include "geores/kernels/pooled/generators.h"

namespace geores::kernels {

// One perceptron with 3n + 2 outputs, whose input has `in` values.
template <class T>
struct JointGenerators {
  PerceptronArrays<T> net;
  T *norm_weight, *norm_bias;  // (in)
};
constexpr GeneratorShape joint_shape(int sequences, int length, int in, int hidden, int n) {
  return {sequences, length, in, hidden, 1, {3 * n + 2}};
}

// The values that the backward pass needs again.
template <class T>
struct JointState {
  T *input, *normal;  // (sequences, in): a, and LN(mean) before the norm's weight and bias
  T* inverse;         // (sequences): 1 / the deviation of the mean's values
  T* hidden;          // (sequences, hidden), before GELU
  T* raw;             // (sequences, 3n + 2)
};

// sums as summary_forward left them -> g (sequences, n, n), penalty (sequences) = penalty_weight ·
// 4γ(1 − γ).
template <class T>
void joint_generators_forward(CudaStream stream, const JointGenerators<const T>& parameters,
                              const T* sums, const JointState<T>& state, T* g, T* penalty,
                              T penalty_weight, int n, const GeneratorShape& shape);

// dg (sequences, parts, n, n), to be summed over the parts; dpenalty with `dpenalty_stride` between
// sequences, or null; buffers for the gradients of hidden units (sequences, hidden) and of raw outputs.
// Overwrites dmean (sequences, in) and the gradients of the perceptron, adds to those of the norm.
template <class T>
struct JointBackward {
  const T *dg, *dpenalty;
  int parts;
  int64_t dpenalty_stride;
  T penalty_weight;
  T *dhidden, *draw, *dmean;
};
template <class T>
void joint_generators_backward(CudaStream stream, const JointGenerators<const T>& parameters,
                               const JointState<const T>& state, const JointBackward<T>& p,
                               const JointGenerators<T>& gradients, int n,
                               const GeneratorShape& shape);

}  // namespace geores::kernels
