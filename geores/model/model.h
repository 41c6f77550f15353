// The interface of a model for trainer, checkpoints, evaluation, benchmark and inspect. A new kind
// of model is a folder next to transformer/ and a line in registry.cpp.
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

// The shape of the sequences for which a model is built.
struct InputShape {
  int64_t length = 0;      // positions, at most
  int64_t width = 1;       // values of a vector; 1 for tokens
  int64_t vocabulary = 0;  // token ids; 0: vectors
  // Positions of a model beyond `length`: the EΔ paper's code has one.
  int64_t spare_positions = 1;

  bool tokens() const { return vocabulary > 0; }

  nlohmann::json to_json() const;
  static InputShape from_json(const nlohmann::json& object, const std::string& where);
};

// x: (B, T, width) floating, or (B, T) ids as int64. y: the targets, of the same kind; an id of −1
// is not scored.
struct Batch {
  Tensor x, y;
};

// Residual connections in the order in which a state passes them, each with its sublayer: the input
// of `geores inspect`.
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
  // The map from a state to the input of the model's end: (B, T, ...) -> (B, T, width). Empty: the
  // identity.
  std::function<Tensor(const Tensor& state)> collapse = {};
  // The model's predictions from the state after the last stage.
  std::function<Tensor(const Tensor& state)> predict = {};

  const Traits& traits() const { return stages.front().residual->traits(); }
};

// Reads sequences one position at a time and caches the values that later positions need.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // x: (B, width), or (B) ids. Returns the predictions (B, ...), valid until the next step.
  virtual const Tensor& step(const Tensor& x) = 0;

  // Several positions at once: x (B, T, width), or (B, T) ids, T >= 1. Returns the predictions of
  // the last one.
  virtual const Tensor& read(const Tensor& x) {
    for (int64_t t = 0; t + 1 < x.size(1); ++t) step(x.select(1, t));
    return step(x.select(1, x.size(1) - 1));
  }
};

// The position of a training pass in the run. A model's random draws are a function of it alone.
struct PassPosition {
  int64_t seed = 0;
  Tensor step = {};       // (1) int64, on the model's device
  int64_t first_row = 0;  // index of the pass's first sequence in the whole batch
};

// The part of a training pass that is dropped and recomputed in its backward pass
// (transformer/recompute.h).
enum class Recompute { nothing, blocks, connections };
const std::vector<std::string>& recompute_names();  // "none", "blocks", "connections"
Recompute recompute_from(const std::string& name);

class Model : public torch::nn::Module {
 public:
  virtual InputShape input() const = 0;

  // (B, T, width), or logits (B, T, vocabulary). The trace receives the pass's other results
  // (auxiliary losses and, on request, probes).
  virtual Tensor predict(const Tensor& x, Trace& trace) = 0;

  // One training pass with gradients. It reads the carry and overwrites it, in place, with that of
  // the next step. It may not read values back from the device: on a GPU the pass is recorded.
  virtual Objective objective(const Batch& batch, Carry& carry) = 0;

  // Called before each training pass.
  virtual void set_pass(const PassPosition&) {}

  // The carry of a run's first step with `rows` sequences, on the model's device; `seed` is that of
  // its random draws. Empty: steps are independent.
  virtual Carry initial_carry(int64_t /*rows*/, int64_t /*seed*/ = 0) const { return {}; }

  // The model's own keys of a line of metrics.jsonl. A carry with a tensor "metrics" (rows, any)
  // adds up measurements of its passes there. `sums` is its sum over the rows and over the `passes`
  // row passes since the last line; the training loop clears it then.
  virtual nlohmann::json metrics_of(const Tensor& /*sums*/, int64_t /*passes*/) const {
    return nlohmann::json::object();
  }

  // A table (rows, values) that is not a parameter: a step updates only the rows that its batch
  // used. From this call on, training passes keep those. Undefined: there is none.
  virtual Tensor train_table() { return {}; }

  // The table rows of the training passes since the last call, in order.
  struct TableRows {
    Tensor identifiers;  // (B)
    Tensor rows;         // (B, values), with a gradient after the backward pass
  };
  virtual std::vector<TableRows> take_table_rows() { return {}; }

  // Throws if the loss of a batch is not the mean of those of its parts, split over `processes`
  // with `parts` each.
  virtual void require_parts(int64_t /*parts*/, int64_t /*processes*/) const {}

  // The loss of a batch for evaluation: without gradients, without auxiliary losses, and with a
  // separate carry.
  virtual Objective evaluate(const Batch& batch);

  // A batch's contribution to the mean over several, weights (B) float64; 0-dimensional, float64.
  // Where the loss is a mean over sequences (weighs_sequences), each has its own weight, so a
  // sequence that was drawn twice is evaluated once; elsewhere the batch's mean is weighted with
  // their sum.
  virtual bool weighs_sequences() const { return false; }
  virtual Tensor weighted_loss(const Batch& batch, const Tensor& weights);

  // Parameters on a manifold, which the optimiser does not update: they have their own step after
  // the optimiser's.
  virtual std::vector<Tensor> manifold_parameters() const { return {}; }
  virtual void manifold_step() {}

  // Parameters of rank >= 2 that do not decay, and others that do (Residual::decay_exceptions).
  virtual std::vector<Tensor> decay_exceptions() const { return {}; }

  // Trades a second forward pass, or that of the connections alone, for memory.
  virtual void set_recompute(Recompute what);

  // Throws if the model needs whole sequences. A decoder assumes fixed weights, because it copies
  // some and reads others from the model: create a new one after training on, or moving the model.
  virtual std::unique_ptr<Decoder> decoder(int64_t batch);

  // nullopt: the model has no residual connections to inspect.
  virtual std::optional<ResidualStack> residual_stack() { return std::nullopt; }

  // Facts about the built model that its options do not show.
  virtual nlohmann::json description() const { return nlohmann::json::object(); }
};

int64_t parameter_count(const torch::nn::Module& module);

}  // namespace geores
