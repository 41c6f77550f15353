// One layer of the recursive network (TRM, arXiv:2510.04871), post-norm, on a state (B, S, W):
//   h ← N(h + Attn(h)),  h ← N(h + MLP(h)),   N(x) = x / √(mean x² + ε)
// With a mixer, a residual connection replaces the plain residual, and Attn and MLP work at the
// width of one stream. With mlp_t the first half is an MLP over the positions of each channel, and
// its norm is over the positions too.
#pragma once

#include <memory>

#include "geores/model/recursive/recursive_options.h"
#include "geores/model/sublayers/mlp.h"
#include "geores/ops/attention/rotary.h"
#include "geores/ops/dense/post_norm.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// A normal distribution cut at ±2 deviations and rescaled so that its standard deviation is `std`.
Tensor truncated_normal(at::IntArrayRef shape, double std);

// softmax(q kᵀ/√hd) v over all positions, no mask, no biases. A head may be wider than the input.
class FullAttention : public torch::nn::Module {
 public:
  FullAttention(int64_t width, int64_t heads, int64_t head_width);
  Tensor forward(const Tensor& x, const RotaryTables& rotary) const;

 private:
  int64_t heads_, head_width_;
  Tensor qkv_, out_;  // (3·heads·head, w) = [all q | all k | all v], (w, heads·head)
};

class RecursiveLayer : public torch::nn::Module {
 public:
  // `positions` is S, for mlp_t; `index` counts layers.
  RecursiveLayer(const RecursiveOptions& options, int64_t positions, int64_t index);

  // h: the input of the layer; with mixers only its state is used. `added` and `keeps_state` are
  // passed to the norm at its end: the tensor that the next application of the network adds to the
  // result.
  PostNormed forward(const StateAndProduct& h, const RotaryTables& rotary, Trace& trace,
                     const Tensor& added = {}, bool keeps_state = true);

  std::vector<Residual*> mixers() const;

 private:
  // The mixer and the norm after it.
  PostNormed mixed(Residual& mixer, const Tensor& h, const Sublayer& f, const PostNorm& norm,
                   Trace& trace) const;

  double eps_;
  int64_t streams_;
  std::shared_ptr<FullAttention> attention_;  // or
  std::shared_ptr<SwiGluMlp> positions_mlp_;  // mlp_t
  std::shared_ptr<SwiGluMlp> mlp_;
  std::shared_ptr<Residual> attention_mixer_, mlp_mixer_;  // null: the plain residual
};

}  // namespace geores
