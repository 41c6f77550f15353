#include "geores/model/transformer/block.h"

#include <cmath>

#include "geores/base/error.h"
#include "geores/modules/layers.h"

namespace geores {
namespace {

// The branch that a connection wraps, with the maps inside.
Sublayer with_maps(Sublayer sublayer, const std::shared_ptr<BranchMaps>& maps) {
  if (!maps) return sublayer;
  return [sublayer = std::move(sublayer), maps](const Tensor& h) {
    return sublayer.between(maps->pre(), h, maps->post());
  };
}

}  // namespace

Block::Block(const std::string& connection, const ResidualConfig& config,
             const SublayerOptions& sublayers, int64_t heads, int64_t layers)
    : index_(config.index) {
  auto of_block = config;  // two connections a block: their indices in the stack are 2i and 2i + 1
  of_block.index = 2 * config.index;
  attention_residual_ = register_module("attention_residual", make_residual(connection, of_block));
  of_block.index += 1;
  mlp_residual_ = register_module("mlp_residual", make_residual(connection, of_block));

  const auto width = attention_residual_->traits().sublayer_width;
  const auto out_std = kInitialStd / std::sqrt(2.0 * static_cast<double>(layers));
  require(heads >= 1 && config.width % heads == 0, "transformer",
          "width {} is not divisible by {} heads", config.width, heads);
  const auto inner = sublayers.branch_width > 0 ? sublayers.branch_width : width;
  attention_ = register_module(
      "attention", make_attention(sublayers, inner, heads_that_fit(inner, heads), out_std));
  mlp_ = register_module("mlp", make_mlp(sublayers, inner, out_std));
  scale_start(attention_->folding({}, {}), sublayers);
  scale_start(mlp_->folding({}, {}), sublayers);
  attention_maps_ = make_maps(sublayers, width, inner);
  mlp_maps_ = make_maps(sublayers, width, inner);
  if (!attention_maps_) return;
  require(!attention_residual_->pre().defined() && !attention_residual_->post().defined(),
          "transformer", "{} has linear maps of its own around its sublayers; choose maps = none",
          connection);
  register_module("attention_maps", attention_maps_);
  register_module("mlp_maps", mlp_maps_);
}

Sublayer Block::attention_branch(AttentionCache* cache, const FoldedWeights* folded) const {
  const auto attention = attention_;
  return with_maps({[=](const Tensor& h) { return attention->forward(h, cache); },
                    [=](const Tensor& pre, const Tensor& h, const Tensor& post) {
                      return folded ? attention->between(*folded, h, cache)
                                    : attention->between(pre, h, post, cache);
                    }},
                   attention_maps_);
}

Sublayer Block::mlp_branch(const FoldedWeights* folded) const {
  const auto mlp = mlp_;
  return with_maps({[=](const Tensor& h) { return mlp->forward(h); },
                    [=](const Tensor& pre, const Tensor& h, const Tensor& post) {
                      return folded ? mlp->between(*folded, h) : mlp->between(pre, h, post);
                    }},
                   mlp_maps_);
}

State Block::advance(const State& state, Trace& trace, AttentionCache* cache,
                     const Folded* folded) {
  return advance(state, trace,
                 {attention_branch(cache, folded ? &folded->attention : nullptr),
                  mlp_branch(folded ? &folded->mlp : nullptr)});
}

State Block::advance(const State& state, Trace& trace, const Branches& branches) {
  return mlp_residual_->advance(attention_residual_->advance(state, branches.attention, trace),
                                branches.mlp, trace);
}

Block::Branches Block::branches(const Dropout& dropout) const {
  if (!dropout.active()) return {attention_branch(), mlp_branch()};
  const auto site = 1 + 3 * index_;  // site 0 is the embedding's
  const auto attention = [this, &dropout, site](const Tensor& h) {
    return dropped(attention_->forward(h, dropout, site), dropout, site + 1);
  };
  const auto mlp = [this, &dropout, site](const Tensor& h) {
    return dropped(mlp_->forward(h), dropout, site + 2);
  };
  return {with_maps(attention, attention_maps_), with_maps(mlp, mlp_maps_)};
}

}  // namespace geores
