// A linear map of a normalized input, y = Norm(x) Wᵀ + b. The fused form never stores all of
// Norm(x).
#pragma once

#include "geores/ops/streams/state.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct NormSpec {
  bool layer;             // LayerNorm with eps 1e-5, else RMSNorm
  Tensor weight{};        // undefined: 1
  Tensor bias{};          // undefined: 0; LayerNorm only
  double epsilon = 1e-6;  // of RMSNorm
};

// Folds the norm's own weight and bias into the linear map `weight`, `bias` after it, which saves
// that work for every token.
struct LinearMap {
  Tensor weight, bias;  // bias may be undefined
};
LinearMap folded_into(const NormSpec& norm, const Tensor& weight, const Tensor& bias);

// The result, and x itself for its other uses; their gradients are added in the same pass.
struct ProjectionAndSkip {
  Tensor projected, skip;
};
ProjectionAndSkip normalized_linear(const State& state, const NormSpec& norm, const Tensor& weight,
                                    const Tensor& bias);

// Norm(x), composed or fused.
Tensor normalized(const Tensor& x, const NormSpec& norm);

}  // namespace geores
