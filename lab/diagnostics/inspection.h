// The results of `geores inspect`: plain numbers, as a table, as JSON and as a page.
// How they are measured: lab/diagnostics/inspect.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lab/diagnostics/mixer_report.h"

namespace geores {

// Of a value over sequences and positions; `deviation` is the standard deviation.
struct Spread {
  double mean = 0, deviation = 0, least = 0, most = 0;
};

// One residual operator: the map R that carries the state past one sublayer. Empty where the
// connection has no such value, or (post-norm) no linear path.
struct OperatorReport {
  std::string name;                          // "block 0 attention"
  std::optional<Spread> gamma, beta, angle;  // gate, strength, rotation angle in radians
  std::optional<double> rotation_error;  // max |RᵀR − I| where R should be exactly orthogonal
  std::optional<Spread> defect;          // ‖RᵀR − I‖₂
  std::optional<Spread> sigma_min, sigma_max;  // of R
  std::optional<double> branch_variance;  // σ² = ‖J − R‖²_F / V: the Jacobian besides R
  std::optional<Spread> composite_norm;   // ‖R_l … R_1‖₂ up to and with this operator
  std::vector<double> mixer;              // mean R, row by row; empty if R acts on the width
};

// One block: some sublayers with their connections.
struct LayerReport {
  double norm_in = 0, norm_out = 0;     // RMS of a token's values, mean over tokens
  double effective_rank = 0;            // of the states after the block, mean over sequences
  std::optional<double> stream_cosine;  // mean cosine between different streams of a token
};

// The product R_2L … R_1 of all operators.
struct CompositeReport {
  Spread norm, sigma_min;                       // largest and smallest singular value
  std::optional<Spread> second;                 // σ₂; empty for 1 × 1
  std::optional<Spread> row_sums, column_sums;  // stream mixers only; over all rows, all tokens
};

struct JacobianSpectrum {
  std::vector<double> singular_values;  // descending

  double sigma_max() const;
  double sigma_min() const;
  double condition() const;            // infinite if σ_min = 0
  double share_below(double s) const;  // of the singular values
};

struct Inspection {
  std::string connection, layout;
  int64_t blocks = 0, streams = 1, state_width = 0;
  int64_t sequences = 0, length = 0;  // of the measured data
  int64_t positions = 0;              // per sequence, at which operators were taken apart
  int64_t jacobian_position = 0;      // counted from 0

  std::vector<OperatorReport> operators;  // in depth order
  double input_norm = 0, input_rank = 0;  // of the states that enter the first block
  std::optional<double> input_cosine;
  std::vector<LayerReport> layers;
  std::optional<CompositeReport> composite;           // token by token
  std::optional<CompositeReport> composite_of_means;  // of the mean operators
  std::optional<MixerReport> mixers;                  // of two or more streams
  std::optional<InertMixers> inert;                   // of hyper-connections
  std::optional<RankReport> ranks;
  std::vector<BetaReport> betas;      // of delta rules
  JacobianSpectrum residual_path;     // all sublayers silent
  JacobianSpectrum whole_stack;       // all blocks as they are
  std::vector<std::string> warnings;  // in plain words

  std::string to_table() const;
  nlohmann::json to_json() const;
};

// A self-contained HTML page: warnings, charts and the numbers. `title` names the run.
std::string to_page(const Inspection& inspection, const std::string& title);

// Writes folder/mixers.safetensors: mixer/000, mixer/001, … (n, n), branch variances `sigma2` and
// the singular values `jacobian` of the whole stack, all F64; see lab/spectrum/mixer_file.h.
// False, and no file, if the operators are not n × n mixers of streams.
bool save_mixers(const Inspection& inspection, const std::filesystem::path& folder);

}  // namespace geores
