// A transformer block: attention and MLP, each wrapped in a residual connection instead of a plain
// residual.
#pragma once

#include <memory>
#include <string>

#include "geores/model/sublayers/maps.h"
#include "geores/model/sublayers/sublayers.h"
#include "geores/residual/registry.h"

namespace geores {

class Block : public torch::nn::Module {
 public:
  // config.index is the block's number; `layers` scales the initial output projections. The number
  // of heads must divide the width. If a connection gives its sublayers less than the width (a
  // stream), attention has as many heads as fit, heads().
  Block(const std::string& connection, const ResidualConfig& config,
        const SublayerOptions& sublayers, int64_t heads, int64_t layers);
  Tensor forward(const Tensor& x, Trace& trace, AttentionCache* cache = nullptr) {
    return advance(x, trace, cache).total();
  }
  // Weights of the sublayers with the connections' maps folded into them.
  struct Folded {
    FoldedWeights attention, mlp;
  };

  // The same for a state whose last branch may be pending, before and after. `folded`, if given,
  // holds the weights that this pass would otherwise fold.
  State advance(const State& state, Trace& trace, AttentionCache* cache = nullptr,
                const Folded* folded = nullptr);

  // The same with other sublayers.
  struct Branches {
    Sublayer attention, mlp;
  };
  State advance(const State& state, Trace& trace, const Branches& branches);

  // The block's own sublayers; in training with dropout on the attention weights and on both
  // branches. They do not fold: the branch is the sublayer's output before the connection's own
  // map. The dropout must outlive the result.
  Branches branches(const Dropout& dropout) const;

  AttentionCache make_cache(int64_t batch, int64_t capacity) const {
    return attention_->make_cache(batch, capacity);
  }

  // How linear maps, the connections' or the block's own, are folded into the sublayers.
  Folding attention_folding() const {
    return attention_->folding(pre(attention_maps_, *attention_residual_),
                               post(attention_maps_, *attention_residual_));
  }
  Folding mlp_folding() const {
    return mlp_->folding(pre(mlp_maps_, *mlp_residual_), post(mlp_maps_, *mlp_residual_));
  }

  // The branches of the connections: the sublayers with the block's own maps around them. `folded`,
  // if given, must outlive the result.
  Sublayer attention_branch(AttentionCache* cache = nullptr,
                            const FoldedWeights* folded = nullptr) const;
  Sublayer mlp_branch(const FoldedWeights* folded = nullptr) const;

  int64_t heads() const { return attention_->heads(); }
  Attention& attention() { return *attention_; }
  Mlp& mlp() { return *mlp_; }
  Residual& attention_residual() { return *attention_residual_; }
  Residual& mlp_residual() { return *mlp_residual_; }

 private:
  using Maps = std::shared_ptr<BranchMaps>;
  static Tensor pre(const Maps& maps, const Residual& residual) {
    return maps ? maps->pre() : residual.pre();
  }
  static Tensor post(const Maps& maps, const Residual& residual) {
    return maps ? maps->post() : residual.post();
  }

  int64_t index_;
  std::shared_ptr<Residual> attention_residual_, mlp_residual_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Mlp> mlp_;
  Maps attention_maps_, mlp_maps_;  // null: none
};

}  // namespace geores
