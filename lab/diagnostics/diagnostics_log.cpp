#include "lab/diagnostics/diagnostics_log.h"

#include <sstream>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "lab/diagnostics/mixer_report.h"

namespace geores {
namespace {

// The lines of steps before `step`.
std::string lines_before(const std::filesystem::path& path, int64_t step) {
  std::string kept;
  if (!std::filesystem::exists(path)) return kept;
  std::istringstream text(read_text_file(path));
  for (std::string line; std::getline(text, line);)
    if (parse_json(line, path.string()).value("step", step) < step) kept += line + "\n";
  return kept;
}

// MGT's α of each operator: with α = 0 nothing is erased, whatever β does.
nlohmann::json alphas_of(Model& model) {
  auto all = nlohmann::json::array();
  if (const auto stack = model.residual_stack())
    for (const auto& stage : stack->stages)
      if (const auto* alpha = stage.residual->named_parameters().find("alpha"))
        if (alpha->numel() == 1) all.push_back(alpha->item<double>());
  return all;
}

}  // namespace

nlohmann::json diagnostics_line(int64_t step, Model& model, const Tensor& x,
                                const DiagnosedParts& parts) {
  const auto data = x.slice(0, 0, kDiagnosedSequences);
  nlohmann::json line = {{"step", step}};
  if (parts.mixers)
    if (const auto mixers = describe_mixers(model, data)) line["mixers"] = mixers->to_json();
  if (parts.ranks)
    if (const auto ranks = describe_ranks(model, data)) line["relative_rank"] = ranks->to_json();
  if (!parts.betas) return line;
  for (const auto& beta : describe_betas(model, data)) line["beta"].push_back(beta.to_json());
  if (line.contains("beta")) line["alpha"] = alphas_of(model);
  return line;
}

DiagnosticsLog::DiagnosticsLog(Tensor x, const DiagnosedParts& parts, int64_t interval,
                               int64_t last_step)
    : x_(std::move(x)), parts_(parts), interval_(interval), last_step_(last_step) {
  require(interval >= 1, "diagnostics", "the interval must be >= 1, got {}", interval);
}

void DiagnosticsLog::measure(int64_t step, Model& model, const std::filesystem::path& folder) {
  if (step % interval_ != 0 && step != last_step_) return;
  const auto path = folder / "diagnostics.jsonl";
  write_file_atomically(
      path, lines_before(path, step) + diagnostics_line(step, model, x_, parts_).dump() + "\n");
}

}  // namespace geores
