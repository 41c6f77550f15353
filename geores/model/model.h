// What trainer, checkpoints, evaluation, benchmark and inspect know of a model: nothing else. A new
// kind of model is a folder beside transformer/ and a line in registry.cpp.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "geores/model/carry.h"
#include "geores/model/objective.h"
#include "geores/ops/torch.h"
#include "geores/residual/residual.h"

namespace geores {

using torch::Tensor;

// Of the sequences that a model is made for, and of those that it takes.
struct InputShape {
  int64_t length = 0;      // positions, at most
  int64_t width = 1;       // values of a vector; 1 for tokens
  int64_t vocabulary = 0;  // token ids; 0: vectors
  // Positions that a model has beyond `length`: the EΔ paper's code has one.
  int64_t spare_positions = 1;

  bool tokens() const { return vocabulary > 0; }

  nlohmann::json to_json() const;
  static InputShape from_json(const nlohmann::json& object, const std::string& where);
};

// x: (B, T, width) floating, or (B, T) ids as int64. y: what to predict, of the same kind; an id of
// −1 is not scored.
struct Batch {
  Tensor x, y;
};

// Residual connections in the order in which a state meets them, each with the sublayer it wraps:
// what `geores inspect` takes apart.
struct ResidualStack {
  struct Stage {
    std::string name;   // "block 0 attention"
    int64_t block = 0;  // states are described after the last stage of each block
    Residual* residual = nullptr;
    Sublayer sublayer;
  };
  std::string connection;  // name of the connections, all of one kind and of the same traits
  std::vector<Stage> stages;
  std::function<Tensor(const Tensor& x)> initial_state;  // that enters the first stage
  // What the end of the model reads of a state: (B, T, ...) -> (B, T, width). Empty: the state.
  std::function<Tensor(const Tensor& state)> collapse = {};
  // The model's predictions from the state after the last stage.
  std::function<Tensor(const Tensor& state)> predict = {};

  const Traits& traits() const { return stages.front().residual->traits(); }
};

// Reads sequences one position at a time and keeps what later positions need.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // x: (B, width), or (B) ids. Returns the predictions (B, ...), valid until the next step.
  virtual const Tensor& step(const Tensor& x) = 0;

  // Several positions at once: x (B, T, width), or (B, T) ids, T >= 1. Returns the predictions of the
  // last one.
  virtual const Tensor& read(const Tensor& x) {
    for (int64_t t = 0; t + 1 < x.size(1); ++t) step(x.select(1, t));
    return step(x.select(1, x.size(1) - 1));
  }
};

// Where a training pass stands. What a model draws at random is a function of this alone.
struct PassPosition {
  int64_t seed = 0;
  Tensor step = {};       // (1) int64, on the model's device
  int64_t first_row = 0;  // number of the pass's first sequence in the whole batch
};

// What a training pass drops and computes again in its backward pass (transformer/recompute.h).
enum class Recompute { nothing, blocks, connections };
const std::vector<std::string>& recompute_names();  // "none", "blocks", "connections"
Recompute recompute_from(const std::string& name);

class Model : public torch::nn::Module {
 public:
  virtual InputShape input() const = 0;

  // (B, T, width), or logits (B, T, vocabulary). What else the pass leaves (auxiliary losses and,
  // if the trace asks for them, probes) is in the trace.
  virtual Tensor predict(const Tensor& x, Trace& trace) = 0;

  // One training pass with gradients. It reads the carry and writes there, in place, what the next
  // step begins with. No value may be read back from the device: on a GPU the pass is recorded.
  virtual Objective objective(const Batch& batch, Carry& carry) = 0;

  // Told before each training pass.
  virtual void set_pass(const PassPosition&) {}

  // The carry of a run's first step with `rows` sequences, on the model's device. Empty: every step
  // stands alone.
  virtual Carry initial_carry(int64_t /*rows*/) const { return {}; }

  // The loss of a batch for evaluation: without gradients, without auxiliary losses, and from a
  // carry of its own.
  virtual Objective evaluate(const Batch& batch);

  // What a batch adds to the mean over several, weights (B) float64; 0-dimensional, float64. Where
  // the loss is a mean over sequences (weighs_sequences), each counts with its own weight, so one
  // that was drawn twice is evaluated once; elsewhere the batch's mean counts with their sum.
  virtual bool weighs_sequences() const { return false; }
  virtual Tensor weighted_loss(const Batch& batch, const Tensor& weights);

  // Parameters that live on a manifold are not the optimiser's: they take steps of their own after
  // it.
  virtual std::vector<Tensor> manifold_parameters() const { return {}; }
  virtual void manifold_step() {}

  // Parameters of rank >= 2 that do not decay, and others that do (Residual::decay_exceptions).
  virtual std::vector<Tensor> decay_exceptions() const { return {}; }

  // Trades a second forward pass, or that of the connections alone, for memory.
  virtual void set_recompute(Recompute what);

  // Fails where the model needs whole sequences. A decoder is for weights that do not change: it has
  // copies of some and reads others from the model, so after training on, or moving the model, make
  // a new one.
  virtual std::unique_ptr<Decoder> decoder(int64_t batch);

  // Nothing: there are no residual connections to take apart.
  virtual std::optional<ResidualStack> residual_stack() { return std::nullopt; }

  // Facts about the model as it was built that its options do not tell.
  virtual nlohmann::json description() const { return nlohmann::json::object(); }
};

int64_t parameter_count(const torch::nn::Module& module);

}  // namespace geores
