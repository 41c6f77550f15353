// Causal multi-head self-attention, (B, T, w) -> (B, T, w):
//   softmax(q kᵀ/√(w/h) + causal mask) v per head, one fused projection for q, k, v; no biases.
#pragma once

#include <torch/torch.h>

namespace geores {

using torch::Tensor;

class CausalAttention : public torch::nn::Module {
 public:
  // out_std: the output projection's scale, 0.02/√(2·layers) in a stack.
  CausalAttention(int64_t width, int64_t heads, double out_std);
  Tensor forward(const Tensor& x);

 private:
  int64_t heads_;
  torch::nn::Linear qkv_, out_;
};

// The largest number of heads, at most `wanted`, that divides `width`: stream-wide sublayers are
// narrower than the model that asks for the heads.
int64_t heads_that_fit(int64_t width, int64_t wanted);

}  // namespace geores
