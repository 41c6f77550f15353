// How DeepSeek-V4 ends a stack of hyper-connections: a weighted sum of the streams instead of their
// sum. x' = RMSNorm(vec X) as in the connections:
//   y = Σ_i (σ(α x'W + b)_i + ε) x_i             X (B, T, n, C) -> y (B, T, C)
// Start: W = 0, α = 0.01, b = 0: half of the sum, which the norm after it does not notice.
#pragma once

#include "geores/modules/layers.h"

namespace geores {

class StreamHead : public torch::nn::Module {
 public:
  StreamHead(int64_t streams, int64_t width, double norm_epsilon, double guard);
  Tensor forward(const Tensor& x);

 private:
  double norm_epsilon_, guard_;
  std::shared_ptr<ScaledProjection> weights_;
};

}  // namespace geores
