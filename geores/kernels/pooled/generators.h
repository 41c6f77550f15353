// From the summary of a sequence (summary.h) to its operator, on a GPU. Several two-layer
// perceptrons of the same hidden width read the mean of the sequence side by side. Their outputs
// make one of two operators:
//   hybrid   G = γ Q(u, v, β) + (1 − γ)(I − 2kkᵀ), perceptrons u, v, β, k, with
//            γ = σ(logit · (1 + entropy)), logit = ⟨gate, mean⟩ + bias; a plain gate has entropy 0
//   erase    the direction k / ‖k‖ and β = 2σ(raw β), perceptrons k, β
// A block computes one sequence; a second kernel sums the gradients of the parameters over the
// sequences.
#pragma once

#include "geores/kernels/device.h"
#include "geores/kernels/pooled/erase.h"

namespace geores::kernels {

inline constexpr int kMostPerceptrons = 4;
inline constexpr int kMostGeneratorUnits = 2048;  // in, hidden units and outputs, together

template <class T>
struct PerceptronArrays {
  T *hidden, *hidden_bias, *output, *output_bias;  // (hidden, in), (hidden), (outputs, hidden), …
};

struct GeneratorShape {
  int sequences, length, in, hidden, count;
  int outputs[kMostPerceptrons];

  constexpr int units() const { return count * hidden; }
  constexpr int all_outputs() const {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += outputs[i];
    return sum;
  }
};

template <class T>
struct Generators {
  PerceptronArrays<T> nets[kMostPerceptrons];
  T *gate, *gate_bias;  // (in), (1); hybrid only
};

// The values that the backward pass needs again; `sums` and `entropies` as summary_forward left
// them.
template <class T>
struct GeneratorState {
  T* mean;     // (sequences, in)
  T* hidden;   // (sequences, units), before GELU
  T* raw;      // (sequences, all outputs)
  T* logit;    // (sequences); hybrid only
  T* entropy;  // (sequences), the mean over the tokens; hybrid only
};

// g (sequences, n, n), gamma (sequences), penalty (sequences) = penalty_weight · 4γ(1 − γ).
template <class T>
void hybrid_generators_forward(CudaStream stream, const Generators<const T>& parameters,
                               const T* sums, const T* entropies, const GeneratorState<T>& state,
                               T* g, T* gamma, T* penalty, T penalty_weight, int n,
                               const GeneratorShape& shape);

// Memory for one sequence's gradients of hidden units, outputs and gate logit.
template <class T>
struct GeneratorScratch {
  T *hidden, *raw, *logit;
};

// dg (sequences, n, n); dpenalty with `dpenalty_stride` between sequences, or null. Overwrites all
// of dmean (sequences, in), dentropy (sequences) or null, and `gradients`.
template <class T>
void hybrid_generators_backward(CudaStream stream, const Generators<const T>& parameters,
                                const GeneratorState<const T>& state, const T* gamma, const T* dg,
                                const T* dpenalty, int64_t dpenalty_stride, T penalty_weight,
                                const GeneratorScratch<T>& scratch, T* dmean, T* dentropy,
                                const Generators<T>& gradients, int n, const GeneratorShape& shape);

// k (sequences, in) and beta (sequences).
template <class T>
void erase_generators_forward(CudaStream stream, const Generators<const T>& parameters,
                              const T* sums, const GeneratorState<T>& state,
                              const EraseArrays<T>& erase, const GeneratorShape& shape);
template <class T>
void erase_generators_backward(CudaStream stream, const Generators<const T>& parameters,
                               const GeneratorState<const T>& state,
                               const EraseArrays<const T>& erase,
                               const EraseArrays<const T>& derase,
                               const GeneratorScratch<T>& scratch, T* dmean,
                               const Generators<T>& gradients, const GeneratorShape& shape);

}  // namespace geores::kernels
