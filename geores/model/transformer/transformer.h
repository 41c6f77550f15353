// A transformer around any residual connection, d = input_width:
//   vectors  (B, T, d) → Linear + positions → blocks → LN → Linear → (B, T, d)
//   tokens   ids (B, T) → embedding + positions → blocks → LN → tied head → (B, T, vocabulary)
// The connection's state passes between the blocks; to_state and from_state convert to and from it.
// With rotary positions nothing is added to the embedding. Option past: the first state also has a
// learned share of earlier embeddings (past.h). Option input_map = isometry: the weight of the
// first Linear is fixed, with orthogonal columns of one length. Equally long vectors then have
// equally long states, so a LayerNorm only scales them; a learned weight would have to learn that
// (docs/notebook/own.md). Option output_length = input: a predicted vector o becomes o ‖x‖/‖o‖, so lengths
// are kept exactly; learned: c o ‖x‖/‖o‖ + (1 − c) o, with one number c for each position, which
// starts at 0.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/config.h"
#include "geores/model/model.h"
#include "geores/model/transformer/block.h"
#include "geores/model/transformer/past.h"
#include "geores/modules/layers.h"
#include "geores/modules/stream_head.h"

namespace geores {

struct TransformerConfig {
  std::string connection = "edelta";
  std::string input = "continuous";
  int64_t layers = 6;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t streams = 4;
  int64_t context = 256;               // longest sequence; also the number of learned positions
  int64_t input_width = 16;            // continuous input
  int64_t vocabulary = 256;            // token input
  double input_start = 1;              // factor on the initial weights of the first state
  std::string input_map = "learned";   // from vectors to states; or "isometry", which is fixed
  std::string output_length = "free";  // of vectors; or "input" (of the vector before), "learned"
  // The training error of a vector at position t is weighted with (t + 1)^−p, normalised to mean 1
  // over the positions. A model must infer the sequence's properties from the first few vectors;
  // these positions are few, and without weights they are learned last (docs/notebook/own.md). p falls from
  // early_weight to 0 in early_steps steps; early_steps = 0: p is constant.
  double early_weight = 0;
  int64_t early_steps = 0;
  PastOptions past = {};  // the share of earlier positions in the first state
  SublayerOptions sublayers = {};
  int64_t loss_chunk = 8192;  // tokens whose logits exist at a time; 0: all of them
  double dropout = 0;         // in training: on the embedding, attention weights and both branches
  // A non-causal token model predicts tokens from its own input. Refused unless this is set.
  bool allow_noncausal = false;
  nlohmann::json options = nullptr;  // of the connection

  // The options of a run: all but those that follow from its data and those of the connection.
  Fields fields();
};

class Transformer : public Model {
 public:
  explicit Transformer(const TransformerConfig& config);

  // x: (B, T, input_width) floating, or (B, T) int64 ids.
  Tensor forward(const Tensor& x, Trace& trace);

  // For forward(x): mean (outputs − target)², 0-dimensional.
  Tensor squared_error(const Tensor& x, const Tensor& target, Trace& trace,
                       const Dropout& dropout = {});

  InputShape input() const override;
  Tensor predict(const Tensor& x, Trace& trace) override { return forward(x, trace); }
  Objective objective(const Batch& batch, Carry& carry) override;
  void set_pass(const PassPosition& pass) override;
  bool weighs_sequences() const override { return config_.input == "continuous"; }
  Objective evaluate(const Batch& batch) override;
  Tensor weighted_loss(const Batch& batch, const Tensor& weights) override;
  std::vector<Tensor> manifold_parameters() const override;
  void manifold_step() override;
  std::vector<Tensor> decay_exceptions() const override;
  void set_recompute(Recompute what) override { recompute_ = what; }
  std::unique_ptr<Decoder> decoder(int64_t batch) override;  // cached_decoder.h
  std::optional<ResidualStack> residual_stack() override;
  nlohmann::json description() const override;

  // Forward split at its ends: the state that enters the first block if x begins at `position`, and
  // the outputs for the last block's state. With a memory, x continues the sequences of earlier
  // calls; beyond position 0 a model with option `past` needs one.
  Tensor initial_state(const Tensor& x, int64_t position = 0, PastMemory* memory = nullptr) const;
  Tensor outputs(const State& state) const;
  // The same with option output_length; x are the vectors of the state's positions, from `position`
  // on.
  Tensor predictions(const State& state, const Tensor& x, int64_t position = 0) const;

  // The weights of both ends, for code that runs them in its own buffers; bias undefined for
  // tokens.
  struct End {
    Tensor weight, bias;
  };
  End input_end() const;
  End output_end() const;
  const Tensor& positions() const { return positions_; }  // undefined with rotary positions
  const LayerNorm& final_norm() const { return *final_norm_; }
  bool has_head() const { return head_ != nullptr; }  // streams are weighted, not summed

  const TransformerConfig& config() const { return config_; }
  const Traits& traits() const;
  bool causal() const { return traits().causal && config_.sublayers.causal(); }
  const std::vector<std::shared_ptr<Block>>& blocks() const { return blocks_; }

  // In the order in which a token passes them: attention and MLP connection of each block.
  std::vector<Residual*> residuals() const;

 private:
  Tensor embed(const Tensor& x, int64_t position, PastMemory* memory = nullptr) const;
  Tensor first_state(const Tensor& embedded, PastMemory* memory = nullptr) const;
  Tensor cross_entropy(const Batch& batch, Trace& trace, const Dropout& dropout = {});
  Tensor early_error(const Batch& batch, Trace& trace);  // training error with option early_weight
  State final_state(const Tensor& x, Trace& trace, const Dropout& dropout = {});
  State collapse(const State& state) const;  // the state after the last block as one stream
  // Each block's weights with its connections' maps folded into them.
  std::vector<Block::Folded> folded_blocks() const;

  TransformerConfig config_;
  Recompute recompute_ = Recompute::nothing;
  Dropout dropout_;                                     // of the next training pass
  torch::nn::Linear input_{nullptr}, output_{nullptr};  // continuous
  End isometry_;                                        // replaces input_: the weight is fixed
  Tensor embedding_;                                    // tokens (vocabulary, width), also the head
  Tensor positions_;                                    // (context, width)
  Tensor kept_;                                         // (context), of output_length = learned
  Tensor log_positions_;        // (context, 1): ln(t + 1), where early_weight is not 0
  Tensor step_;                 // (1), of the next training pass; undefined before the first
  std::shared_ptr<Past> past_;  // null: none
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<StreamHead> head_;  // null: streams are summed
  std::shared_ptr<LayerNorm> final_norm_;
};

}  // namespace geores
