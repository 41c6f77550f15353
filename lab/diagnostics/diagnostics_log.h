// RUN/diagnostics.jsonl: a model's mixers, ranks and β during training, a line for each
// evaluation. A resumed run drops the lines that it will write again.
//
// Cost: 4.7 % of the processor time of a small run (115.7 s instead of 110.5 s, six lines; two Neoverse-V1
// cores, one used, 2026-11-18):
//   OMP_NUM_THREADS=1 geores train --task text --data shakespeare_char --context 64 --model mhc --layers 4
//     --width 64 --heads 4 --batch 16 --steps 500 --eval-interval 100 --diagnostics-interval 100 --out run
// That was 0.87 s a line with ranks of 4 windows by singular values; ranks of 64 by eigenvalues: 0.86 s.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "geores/model/model.h"

namespace geores {

inline constexpr int64_t kDiagnosedSequences = 64;

// The contents of a line.
struct DiagnosedParts {
  bool mixers = true, ranks = true, betas = true;
};

// {"step", "mixers", "relative_rank", "beta", "alpha"}, each only where it is asked for and the model
// has it; alpha: MGT's, a number for each operator. x: validation data, of which at most 64 sequences
// are used.
nlohmann::json diagnostics_line(int64_t step, Model& model, const Tensor& x,
                                const DiagnosedParts& parts = {});

class DiagnosticsLog {
 public:
  // Steps that are no multiple of `interval` are left out, but for the last one.
  explicit DiagnosticsLog(Tensor x, const DiagnosedParts& parts = {}, int64_t interval = 1,
                          int64_t last_step = 0);
  void measure(int64_t step, Model& model, const std::filesystem::path& folder);

 private:
  Tensor x_;
  DiagnosedParts parts_;
  int64_t interval_, last_step_;
};

}  // namespace geores
