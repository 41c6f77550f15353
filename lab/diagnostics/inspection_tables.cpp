#include "lab/diagnostics/inspection_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace geores {
namespace {

std::string cell(double value) { return fmt::format("{:.3g}", value); }

// Includes the deviation only if it is visible next to the mean.
std::string cell(const Spread& value) {
  if (value.deviation < 5e-4 * std::abs(value.mean) + 1e-9) return cell(value.mean);
  return fmt::format("{:.3g} ± {:.1g}", value.mean, value.deviation);
}

template <class Value>
std::string cell(const std::optional<Value>& value) {
  return value ? cell(*value) : "";
}

std::string range(const std::optional<Spread>& value) {
  if (!value) return "";
  const auto from = fmt::format("{:.4g}", value->least), to = fmt::format("{:.4g}", value->most);
  return from == to ? from : from + " to " + to;
}

Table operator_table(const Inspection& in) {
  Table table{
      "R is the linear map that carries the state past a sublayer; mean ± standard deviation over "
      "sequences and positions. ‖RᵀR−I‖₂ = 0 means that R keeps every length, σ_min = 0 that it "
      "loses a direction. Branch σ²: size of the rest of the operator's Jacobian. ‖R_l…R_1‖₂: how "
      "much all operators so far can amplify a state.",
      {"operator", "γ", "β", "angle", "max|QᵀQ−I|", "‖RᵀR−I‖₂", "σ_min", "σ_max", "branch σ²",
       "‖R_l…R_1‖₂"},
      {}};
  for (std::size_t l = 0; l < in.operators.size(); ++l) {
    const auto& o = in.operators[l];
    table.rows.push_back(
        {fmt::format("{:>2}  {}", l, o.name), cell(o.gamma), cell(o.beta), cell(o.angle),
         o.rotation_error ? fmt::format("{:.1e}", *o.rotation_error) : "", cell(o.defect),
         cell(o.sigma_min), cell(o.sigma_max), cell(o.branch_variance), cell(o.composite_norm)});
  }
  return table;
}

Table state_table(const Inspection& in) {
  Table table{
      "States between the blocks. RMS: of a token's values. Effective rank: exp of the entropy of "
      "the normalised singular values of a sequence's token matrix. Stream cosine: mean over "
      "pairs of different streams of a token; 1 means that all streams carry the same.",
      {"block", "RMS in", "RMS out", "effective rank", "stream cosine"},
      {{"input", "", cell(in.input_norm), cell(in.input_rank), cell(in.input_cosine)}}};
  for (std::size_t i = 0; i < in.layers.size(); ++i) {
    const auto& layer = in.layers[i];
    table.rows.push_back({std::to_string(i), cell(layer.norm_in), cell(layer.norm_out),
                          cell(layer.effective_rank), cell(layer.stream_cosine)});
  }
  return table;
}

Table composite_table(const Inspection& in) {
  Table table{
      "The product of all operators, from the first block to the last. Sums of 1 in rows and "
      "columns keep the mean over streams.",
      {"product", "spectral norm", "σ₂", "σ_min", "row sums", "column sums"},
      {}};
  const auto add = [&](const std::string& name, const CompositeReport& report) {
    table.rows.push_back({name, cell(report.norm), cell(report.second), cell(report.sigma_min),
                          range(report.row_sums), range(report.column_sums)});
  };
  if (in.composite) add("token by token", *in.composite);
  if (in.composite_of_means) add("of the mean operators", *in.composite_of_means);
  return table;
}

Table jacobian_table(const Inspection& in) {
  Table table{
      fmt::format("Singular values of ∂ output / ∂ input of all blocks at position {} of the first "
                  "sequence. Residual path: every sublayer returns zero.",
                  in.jacobian_position),
      {"Jacobian", "σ_max", "σ_min", "condition", "share below 0.1"},
      {}};
  const auto add = [&](const std::string& name, const JacobianSpectrum& spectrum) {
    table.rows.push_back({name, cell(spectrum.sigma_max()), cell(spectrum.sigma_min()),
                          cell(spectrum.condition()),
                          fmt::format("{:.1f} %", 100 * spectrum.share_below(0.1))});
  };
  add("residual path", in.residual_path);
  add("whole stack", in.whole_stack);
  return table;
}

std::string count(int64_t number, const std::string& thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

}  // namespace

std::vector<Table> tables_of(const Inspection& inspection) {
  std::vector<Table> tables = {operator_table(inspection), state_table(inspection)};
  if (inspection.composite) tables.push_back(composite_table(inspection));
  if (inspection.mixers)
    for (auto& table : inspection.mixers->tables()) tables.push_back(std::move(table));
  tables.push_back(jacobian_table(inspection));
  for (auto& table : tables) drop_empty_columns(table);
  return tables;
}

std::string headline(const Inspection& in) {
  return fmt::format(
      "{}: {}, {}; layout {}, {}, state width {}\n"
      "measured on {} of {}, operators at {} of each, Jacobians at position {} of the first",
      in.connection, count(in.blocks, "block"),
      count(static_cast<int64_t>(in.operators.size()), "operator"), in.layout,
      count(in.streams, "stream"), in.state_width, count(in.sequences, "sequence"), in.length,
      count(in.positions, "position"), in.jacobian_position);
}

}  // namespace geores
