#include "lab/diagnostics/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "geores/base/formats/safetensors.h"
#include "lab/diagnostics/inspection_tables.h"

namespace geores {
namespace {

nlohmann::json json_of(const CompositeReport& composite);
nlohmann::json json_of(double value) { return value; }
nlohmann::json json_of(const Spread& spread) {
  return {{"mean", spread.mean},
          {"deviation", spread.deviation},
          {"least", spread.least},
          {"most", spread.most}};
}
template <class Value>
nlohmann::json json_of(const std::optional<Value>& value) {
  return value ? json_of(*value) : nlohmann::json(nullptr);
}

nlohmann::json json_of(const OperatorReport& o) {
  return {{"name", o.name},
          {"gamma", json_of(o.gamma)},
          {"beta", json_of(o.beta)},
          {"angle", json_of(o.angle)},
          {"rotation_error", json_of(o.rotation_error)},
          {"orthogonality_defect", json_of(o.defect)},
          {"sigma_min", json_of(o.sigma_min)},
          {"sigma_max", json_of(o.sigma_max)},
          {"branch_variance", json_of(o.branch_variance)},
          {"composite_norm", json_of(o.composite_norm)},
          {"mean_mixer", o.mixer}};
}

nlohmann::json json_of(const LayerReport& layer) {
  return {{"norm_in", layer.norm_in},
          {"norm_out", layer.norm_out},
          {"effective_rank", layer.effective_rank},
          {"stream_cosine", json_of(layer.stream_cosine)}};
}

nlohmann::json json_of(const CompositeReport& composite) {
  return {{"spectral_norm", json_of(composite.norm)},
          {"sigma_2", json_of(composite.second)},
          {"sigma_min", json_of(composite.sigma_min)},
          {"row_sums", json_of(composite.row_sums)},
          {"column_sums", json_of(composite.column_sums)}};
}

nlohmann::json json_of(const JacobianSpectrum& spectrum) {
  const auto condition = spectrum.condition();
  return {{"sigma_max", spectrum.sigma_max()},
          {"sigma_min", spectrum.sigma_min()},
          {"condition", std::isfinite(condition) ? nlohmann::json(condition) : nullptr},
          {"share_below_0.1", spectrum.share_below(0.1)},
          {"singular_values", spectrum.singular_values}};
}

}  // namespace

double JacobianSpectrum::sigma_max() const { return singular_values.front(); }
double JacobianSpectrum::sigma_min() const { return singular_values.back(); }
double JacobianSpectrum::condition() const {
  return sigma_min() > 0 ? sigma_max() / sigma_min() : std::numeric_limits<double>::infinity();
}
double JacobianSpectrum::share_below(double s) const {
  const auto count = std::count_if(singular_values.begin(), singular_values.end(),
                                   [s](double sigma) { return sigma < s; });
  return static_cast<double>(count) / static_cast<double>(singular_values.size());
}

std::string Inspection::to_table() const {
  auto text = headline(*this) + "\n\n";
  for (const auto& warning : warnings) text += "warning: " + warning + "\n";
  if (!warnings.empty()) text += "\n";
  for (const auto& table : tables_of(*this)) text += to_text(table) + "\n";
  text.pop_back();
  return text;
}

nlohmann::json Inspection::to_json() const {
  auto beta_list = nlohmann::json::array();
  for (const auto& beta : betas) beta_list.push_back(beta.to_json());
  auto operator_list = nlohmann::json::array(), layer_list = nlohmann::json::array();
  for (const auto& o : operators) operator_list.push_back(json_of(o));
  for (const auto& layer : layers) layer_list.push_back(json_of(layer));
  return {{"connection", connection},
          {"layout", layout},
          {"blocks", blocks},
          {"streams", streams},
          {"state_width", state_width},
          {"sequences", sequences},
          {"length", length},
          {"positions", positions},
          {"jacobian_position", jacobian_position},
          {"warnings", warnings},
          {"operators", operator_list},
          {"input",
           {{"norm", input_norm},
            {"effective_rank", input_rank},
            {"stream_cosine", json_of(input_cosine)}}},
          {"layers", layer_list},
          {"composite", json_of(composite)},
          {"composite_of_means", json_of(composite_of_means)},
          {"mixers", mixers ? mixers->to_json() : nlohmann::json()},
          {"inert", inert ? nlohmann::json{{"first", inert->first},
                                           {"last", inert->last},
                                           {"first_pre", json_of(inert->first_pre)}}
                          : nlohmann::json()},
          {"relative_rank", ranks ? ranks->to_json() : nlohmann::json()},
          {"beta", beta_list},
          {"jacobian",
           {{"residual_path", json_of(residual_path)}, {"whole_stack", json_of(whole_stack)}}}};
}

bool save_mixers(const Inspection& inspection, const std::filesystem::path& folder) {
  SafetensorsWriter writer;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       const std::vector<double>& values) {
    writer.add(name, Dtype::f64, std::move(shape), std::as_bytes(std::span(values)));
  };
  std::vector<double> sigma2;
  for (std::size_t l = 0; l < inspection.operators.size(); ++l) {
    const auto& o = inspection.operators[l];
    if (o.mixer.empty()) return false;
    const auto n = static_cast<int64_t>(std::lround(std::sqrt(o.mixer.size())));
    add(fmt::format("mixer/{:03}", l), {n, n}, o.mixer);
    if (o.branch_variance) sigma2.push_back(*o.branch_variance);
  }
  if (inspection.operators.empty()) return false;
  if (sigma2.size() == inspection.operators.size())
    add("sigma2", {static_cast<int64_t>(sigma2.size())}, sigma2);
  const auto& jacobian = inspection.whole_stack.singular_values;
  if (!jacobian.empty()) add("jacobian", {static_cast<int64_t>(jacobian.size())}, jacobian);
  writer.save(folder / "mixers.safetensors");
  return true;
}

}  // namespace geores
