// The Tiny Recursive Model (TRM, arXiv:2510.04871), with the plain residuals of its layers replaced
// by any mixer of JPmHC (arXiv:2602.18308), EΔ (arXiv:2605.06729) or sHC (arXiv:2603.20896).
//
// Two states, z_H (the answer) and z_L (scratch), (B, S, W) each: S = P prefix positions and T cells.
// One network `net` of a few layers is applied repeatedly, net(z, u) = layers(z + u):
//   cycle:  z_L ← net(z_L, z_H + e)  l_cycles times,  then  z_H ← net(z_H, z_L)
//   pass:   h_cycles cycles, gradients only through the last; logits = W_lm z_H[P:],
//           (q_halt, q_continue) = W_q z_H[0] + b
// e = √D [prefix; E[tokens]]. The prefix is the puzzle's row of a table, padded with zeros and
// split into P positions. For layout expand, W = n·D, e is added to every stream, and logits and q
// read the mean of the streams.
//
// A training step is one pass over all rows. A row keeps its states and its puzzle from step to
// step until it halts (halting.h); the next batch then refills it. The carry holds this state:
//   answer, scratch (B, S, W); steps, identifiers (B); halted (B) bool; inputs, labels (B, T);
//   draws (B): position in the row's random numbers;
// metrics (B, 7) float64: sums since they were last cleared, in the order of `Metric`
// An evaluation runs act_steps passes from the initial state for all rows.
//
// A batch has x (B, 1 + T) = [identifier | tokens], or (B, T) for identifier 0; y (B, T), where a
// negative label is not scored.
//
// The table is a buffer, not a parameter, and a step changes only the rows of its batch
// (Model::train_table); without that call it is constant.
#pragma once

#include <functional>
#include <vector>

#include "geores/model/model.h"
#include "geores/model/recursive/puzzle_loss.h"
#include "geores/model/recursive/recursive_layer.h"
#include "geores/model/recursive/recursive_options.h"

namespace geores {

class Recursive final : public Model {
 public:
  Recursive(const RecursiveOptions& options, const InputShape& input);

  InputShape input() const override { return shape_; }
  Tensor predict(const Tensor& x, Trace& trace) override;
  Objective objective(const Batch& batch, Carry& carry) override;
  Carry initial_carry(int64_t rows, int64_t seed = 0) const override;
  nlohmann::json metrics_of(const Tensor& sums, int64_t passes) const override;
  Tensor train_table() override;
  std::vector<TableRows> take_table_rows() override;
  void require_parts(int64_t parts, int64_t processes) const override;
  Objective evaluate(const Batch& batch) override;
  std::vector<Tensor> manifold_parameters() const override;
  void manifold_step() override;
  nlohmann::json description() const override;

  const RecursiveOptions& options() const { return options_; }

  struct States {
    Tensor answer, scratch;
    States kept() const;  // in the type of a stored state (in_state_type)
  };
  struct Answer {
    Tensor logits;  // (B, T, V)
    Tensor q;       // (B, 2): halt, continue
  };

  States initial_states(int64_t rows) const;
  // e (B, S, D) of tokens (B, T) and table rows (B, table_values).
  Tensor embedded(const Tensor& tokens, const Tensor& table_rows) const;
  // One pass; the states are replaced by new ones without history. `probes` receives the probes of
  // all calls, including those without gradients.
  Answer pass(States& states, const Tensor& e, Trace& trace, Trace* probes = nullptr);

  // A training pass over the rows of the carry, after halted rows have been refilled from the
  // batch.
  struct Step {
    Answer answer;
    RowScores scores;
    Tensor losses;  // (B) float64: lm + ½ q, and ½ of q_continue's where it is trained
    Trace trace;    // gate losses
  };
  Step act_step(const Batch& batch, Carry& carry);

  // act_steps passes from the initial state; `after` receives the answer of each.
  using AfterPass = std::function<void(int64_t step, const Answer& answer)>;
  Answer solve(const Tensor& tokens, const Tensor& identifiers, const AfterPass& after = {},
               Trace* probes = nullptr);

  enum Metric { kLmLoss, kQLoss, kCount, kRightCells, kExact, kQRight, kSteps, kMetrics };

  Tensor& table() { return table_; }  // (identifiers, table_values)

 private:
  // The network applied to h; its last norm also adds the input of the next application.
  StateAndProduct started(const Tensor& state, const Tensor& input) const;
  PostNormed net(StateAndProduct h, const Tensor& added, bool keeps_state, Trace& trace);
  void cycle(States& states, const Tensor& e, Trace& early, Trace& last);
  Tensor mean_of_streams(const Tensor& state) const;
  const RotaryTables& rotary();
  void refill(const Batch& batch, Carry& carry) const;
  Tensor gate_loss(const Trace& trace, int64_t rows) const;

  RecursiveOptions options_;
  InputShape shape_;
  int64_t positions_;  // S
  Tensor tokens_, learned_positions_, lm_head_, q_weight_, q_bias_;
  Tensor answer_start_, scratch_start_, table_;  // buffers
  std::vector<std::shared_ptr<RecursiveLayer>> layers_;
  RotaryTables rotary_;
  bool trains_table_ = false;
  std::vector<TableRows> table_rows_;
};

// Rows of weight (V, D) for ids (..., any). The gradient is a product with one-hot ids, which is
// deterministic: no two additions to one address race.
Tensor embedding_of(const Tensor& weight, const Tensor& ids);

}  // namespace geores
