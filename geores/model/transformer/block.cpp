#include "geores/model/transformer/block.h"

#include <cmath>

#include "geores/base/error.h"
#include "geores/modules/layers.h"

namespace geores {

Block::Block(const std::string& connection, const ResidualConfig& config,
             const SublayerOptions& sublayers, int64_t heads, int64_t layers) {
  auto place = config;  // two connections a block: their places in the stack are 2i and 2i + 1
  place.index = 2 * config.index;
  attention_residual_ = register_module("attention_residual", make_residual(connection, place));
  place.index += 1;
  mlp_residual_ = register_module("mlp_residual", make_residual(connection, place));

  const auto width = attention_residual_->traits().sublayer_width;
  const auto out_std = kInitialStd / std::sqrt(2.0 * static_cast<double>(layers));
  require(heads >= 1 && config.width % heads == 0, "transformer",
          "width {} is not divisible by {} heads", config.width, heads);
  attention_ = register_module(
      "attention", make_attention(sublayers, width, heads_that_fit(width, heads), out_std));
  mlp_ = register_module("mlp", make_mlp(sublayers, width, out_std));
}

State Block::advance(const State& state, Trace& trace, AttentionCache* cache,
                     const Folded* folded) {
  const Sublayer attention([&](const Tensor& h) { return attention_->forward(h, cache); },
                           [&](const Tensor& pre, const Tensor& h, const Tensor& post) {
                             return folded ? attention_->between(folded->attention, h, cache)
                                           : attention_->between(pre, h, post, cache);
                           });
  const Sublayer mlp([&](const Tensor& h) { return mlp_->forward(h); },
                     [&](const Tensor& pre, const Tensor& h, const Tensor& post) {
                       return folded ? mlp_->between(folded->mlp, h) : mlp_->between(pre, h, post);
                     });
  return mlp_residual_->advance(attention_residual_->advance(state, attention, trace), mlp, trace);
}

}  // namespace geores
