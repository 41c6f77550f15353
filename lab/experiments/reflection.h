// Table 7 of the EΔ paper: can one operator on R^64 learn y = −x, and does the gate choose the
// reflection? One operator, its generators perceptrons of x with 128 hidden units, AdamW (1e-3,
// decay 0.01), batches of 32, 2000 steps; the score is the mean cosine between prediction and −x
// over 500 unseen vectors. Beyond the table: generators that are linear
// in x, and a learning rate that falls to 0.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lab/experiments/statistics.h"

namespace geores {

struct ReflectionProbe {
  std::string name, label;
  std::string kind;                      // "ddl", "edelta", "jpmhc" or a factor of isometry_names()
  double gate_bias = -1.5;               // edelta
  double gate_weight = 0.5;              // edelta
  bool task_loss = true;                 // false: only the gate loss trains the operator
  bool own_start = false;                // jpmhc: Y₀ = I + αW, as in its paper; else Y₀ = I
  std::string generator = "perceptron";  // of ddl and the factors; or "linear" or "both"
  int64_t hidden = 128;                  // of their perceptrons
  bool rate_falls = false;  // the learning rate decays linearly to 0; else it is constant
  double published_cosine = std::numeric_limits<double>::quiet_NaN();  // at 500 samples
  Sample published_gate = {};  // β of ddl or γ of edelta at 500 samples
};

// DDL, EΔ and JPmHC as published, and the controls: EΔ with a neutral gate, EΔ without a task,
// JPmHC with its own Y₀, and operators that are always orthogonal.
const std::vector<ReflectionProbe>& reflection_probes();

struct ReflectionConfig {
  int64_t samples = 500;
  int64_t steps = 2000;
  int64_t seed = 42;
  int64_t record_interval = 100;
};

// {"cosine", "loss", "beta", "gamma"} at the end, null where the operator has none, and "history":
// the same with "step" every record_interval steps.
nlohmann::json run_reflection(const ReflectionProbe& probe, const ReflectionConfig& config,
                              const std::function<void(int64_t step)>& progress = {});

}  // namespace geores
