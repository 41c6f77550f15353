// The interface of an optimiser: one step of all parameters in the flat buffers. Its state is two
// moments and the number of steps, so checkpoints and processes treat all optimisers alike. A new
// one is a file pair next to adamw.h and a line in make_optimizer().
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "geores/train/optimizer/flat_parameters.h"

namespace geores {

struct OptimizerOptions {
  std::string method = "adamw";  // adamw, muon (matrices of the blocks by muon.h) or adam_atan2
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;  // adam_atan2 has none
  double weight_decay = 0.1;
  double clip = 1.0;  // 0: no clipping
  // Of the rows of Model::train_table(), by sign_sgd.h; without it a table is constant.
  std::optional<double> table_decay = {};
  double average = 0;  // share of the old average of the parameters that stays; 0: no average
};

class Optimizer {
 public:
  Optimizer(FlatParameters& parameters, const OptimizerOptions& options);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step with the gradients as they are, which it clips in place. Returns their norm before
  // clipping as a 0-dimensional tensor: reading it is the caller's choice of when to wait. On a CPU
  // a step whose norm is not finite changes nothing.
  virtual Tensor step(double learning_rate) = 0;

  // The same with numbers on the device, one value each, for work that is recorded once and
  // replayed. The caller that replays it keeps `steps` up to date.
  struct Rates {
    Tensor learning_rate;
    Tensor bias1, bias2;     // 1 − βᵗ
    Tensor table_rate = {};  // of the rows of a table, which TrainingStep updates
  };
  virtual Tensor step(const Rates& rates) = 0;

  // Whether a recorded step leaves the parameters ready for the next one (flat_parameters.h).
  virtual bool leaves_ready() const { return false; }

  const OptimizerOptions& options() const { return options_; }

  // The state that a resumed run needs to continue exactly.
  Tensor& first_moment() { return first_moment_; }
  Tensor& second_moment() { return second_moment_; }
  int64_t& steps() { return steps_; }

 protected:
  FlatParameters& parameters_;
  OptimizerOptions options_;
  Tensor first_moment_, second_moment_;
  int64_t steps_ = 0;
};

std::unique_ptr<Optimizer> make_optimizer(FlatParameters& parameters,
                                          const OptimizerOptions& options);

}  // namespace geores
