// A transformer around any residual connection.
//   continuous  x (B, T, input_width) → Linear + positions → blocks → LN → Linear → (B, T,
//   input_width) tokens      ids (B, T) → embedding + positions → blocks → LN → tied head → logits
//   (B, T, vocabulary)
// Between the blocks flows the connection's state; to_state and from_state make and undo it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/config.h"
#include "geores/model/block.h"
#include "geores/modules/layers.h"

namespace geores {

struct TransformerConfig {
  std::string connection = "edelta";
  std::string input = "continuous";
  int64_t layers = 6;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t streams = 4;
  int64_t context = 256;     // longest sequence; also the number of learned positions
  int64_t input_width = 16;  // continuous input
  int64_t vocabulary = 256;  // token input
  // A token model whose connection sees the future predicts tokens it has been shown. Refused
  // unless this is set.
  bool allow_noncausal = false;
  nlohmann::json options = nullptr;  // of the connection

  Fields fields();  // all but `options`
};

class Transformer : public torch::nn::Module {
 public:
  explicit Transformer(const TransformerConfig& config);

  // x: (B, T, input_width) floating, or (B, T) int64 ids.
  Tensor forward(const Tensor& x, Trace& trace);

  // Of forward(x): mean (outputs − target)², 0-dimensional.
  Tensor squared_error(const Tensor& x, const Tensor& target, Trace& trace);

  // Forward in its two ends: the state that enters the first block when x begins at `position`, and
  // what the last block's state says.
  Tensor initial_state(const Tensor& x, int64_t position = 0) const;
  Tensor outputs(const State& state) const;

  // The weights of both ends, for those who run them on buffers of their own; bias undefined for
  // tokens.
  struct End {
    Tensor weight, bias;
  };
  End input_end() const;
  End output_end() const;
  const Tensor& positions() const { return positions_; }
  const LayerNorm& final_norm() const { return *final_norm_; }

  const TransformerConfig& config() const { return config_; }
  const Traits& traits() const;
  const std::vector<std::shared_ptr<Block>>& blocks() const { return blocks_; }

  // Trades a second forward pass for the memory of all but the block inputs; see recompute.h.
  void set_recompute(bool recompute) { recompute_ = recompute; }

  // In the order in which a token meets them: attention and MLP connection of each block.
  std::vector<Residual*> residuals() const;

 private:
  Tensor embed(const Tensor& x, int64_t position) const;
  State final_state(const Tensor& x, Trace& trace);
  // Each block's weights with its connections' maps folded into them.
  std::vector<Block::Folded> folded_blocks() const;

  TransformerConfig config_;
  bool recompute_ = false;
  torch::nn::Linear input_{nullptr}, output_{nullptr};  // continuous
  Tensor embedding_;                                    // tokens (vocabulary, width), also the head
  Tensor positions_;                                    // (context, width)
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<LayerNorm> final_norm_;
};

int64_t parameter_count(const torch::nn::Module& module);

}  // namespace geores
