// A transformer block: attention and MLP, each wrapped in a residual connection where a plain
// transformer has its plus sign.
#pragma once

#include <memory>
#include <string>

#include "geores/model/sublayers/maps.h"
#include "geores/model/sublayers/sublayers.h"
#include "geores/residual/registry.h"

namespace geores {

class Block : public torch::nn::Module {
 public:
  // config.index is the block's number; `layers` scales the initial output projections. Heads that
  // do not divide the width are refused. Where a connection gives its sublayers less than the width
  // (a stream), attention has as many heads as fit, heads().
  Block(const std::string& connection, const ResidualConfig& config,
        const SublayerOptions& sublayers, int64_t heads, int64_t layers);
  Tensor forward(const Tensor& x, Trace& trace, AttentionCache* cache = nullptr) {
    return advance(x, trace, cache).total();
  }
  // Weights of the sublayers with the connections' maps folded into them.
  struct Folded {
    FoldedWeights attention, mlp;
  };

  // The same for a state whose last branch may not be added yet, before and after. `folded`, if given,
  // holds what this pass would fold itself.
  State advance(const State& state, Trace& trace, AttentionCache* cache = nullptr,
                const Folded* folded = nullptr);

  // The same around other sublayers than its own.
  struct Branches {
    Sublayer attention, mlp;
  };
  State advance(const State& state, Trace& trace, const Branches& branches);

  // Its own sublayers; in training with dropout on the attention weights and on both branches.
  // Nothing is folded then: the branch is what a sublayer gives, before the connection's own map.
  // The dropout must outlive the result.
  Branches branches(const Dropout& dropout) const;

  AttentionCache make_cache(int64_t batch, int64_t capacity) const {
    return attention_->make_cache(batch, capacity);
  }

  // How linear maps, its connections' or its own, are folded into its sublayers.
  Folding attention_folding() const {
    return attention_->folding(pre(attention_maps_, *attention_residual_),
                               post(attention_maps_, *attention_residual_));
  }
  Folding mlp_folding() const {
    return mlp_->folding(pre(mlp_maps_, *mlp_residual_), post(mlp_maps_, *mlp_residual_));
  }

  // What its connections wrap: the sublayers with the block's own maps around them. `folded`, if
  // given, must outlive the result.
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
