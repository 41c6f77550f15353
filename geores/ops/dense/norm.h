// LayerNorm and RMSNorm over the last axis.
#pragma once

#include <utility>

#include "geores/ops/streams/state.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// (x − mean) / sqrt(var + 1e-5) · weight (+ bias).
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// x / sqrt(mean x² + eps), without weight. An eps of 0 counts as 1e-20, the published one of mHC (Xie
// et al., arXiv:2512.24880, Table 5), so that x = 0 stays 0.
inline double rms_epsilon(double eps) { return eps > 1e-20 ? eps : 1e-20; }
Tensor rms_normalize(const Tensor& x, double eps = 1e-6);

// The normalized x as a product's factor (in bfloat16 on a GPU with products in bfloat16), and x
// itself for the path around the sublayer. Using both outputs adds their gradients in the pass that
// computes the norm's. A pending branch of x is added in the norm's pass.
struct NormAndSkip {
  Tensor normalized, skip;
};
NormAndSkip layer_norm_and_skip(const State& state, const Tensor& weight, const Tensor& bias = {});
NormAndSkip rms_norm_and_skip(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);

}  // namespace geores
