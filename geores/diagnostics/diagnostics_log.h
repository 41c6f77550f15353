// RUN/diagnostics.jsonl: what a model's mixers, ranks and β are like while it trains, a line for each
// evaluation. A resumed run drops the lines that it will write again.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "geores/model/model.h"

namespace geores {

// {"step", "mixers", "relative_rank", "beta"}, each only where the model has it. x: validation data,
// of which at most 64 sequences are used.
nlohmann::json diagnostics_line(int64_t step, Model& model, const Tensor& x);

class DiagnosticsLog {
 public:
  // Steps that are no multiple of `interval` are left out, but for the last one.
  DiagnosticsLog(std::filesystem::path path, Tensor x, int64_t interval = 1, int64_t last_step = 0);
  void measure(int64_t step, Model& model);

 private:
  std::filesystem::path path_;
  Tensor x_;
  int64_t interval_, last_step_;
};

}  // namespace geores
