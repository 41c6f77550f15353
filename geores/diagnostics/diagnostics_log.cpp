#include "geores/diagnostics/diagnostics_log.h"

#include <sstream>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/diagnostics/mixer_report.h"

namespace geores {
namespace {

constexpr int64_t kSequences = 64;

// The lines of steps before `step`.
std::string lines_before(const std::filesystem::path& path, int64_t step) {
  std::string kept;
  if (!std::filesystem::exists(path)) return kept;
  std::istringstream text(read_text_file(path));
  for (std::string line; std::getline(text, line);)
    if (parse_json(line, path.string()).value("step", step) < step) kept += line + "\n";
  return kept;
}

}  // namespace

nlohmann::json diagnostics_line(int64_t step, Model& model, const Tensor& x) {
  const auto data = x.slice(0, 0, kSequences);
  nlohmann::json line = {{"step", step}};
  if (const auto mixers = describe_mixers(model, data)) line["mixers"] = mixers->to_json();
  if (const auto ranks = describe_ranks(model, data)) line["relative_rank"] = ranks->to_json();
  for (const auto& beta : describe_betas(model, data)) line["beta"].push_back(beta.to_json());
  return line;
}

DiagnosticsLog::DiagnosticsLog(std::filesystem::path path, Tensor x, int64_t interval,
                               int64_t last_step)
    : path_(std::move(path)), x_(std::move(x)), interval_(interval), last_step_(last_step) {
  require(interval >= 1, "diagnostics", "the interval must be >= 1, got {}", interval);
}

void DiagnosticsLog::measure(int64_t step, Model& model) {
  if (step % interval_ != 0 && step != last_step_) return;
  write_file_atomically(
      path_, lines_before(path_, step) + diagnostics_line(step, model, x_).dump() + "\n");
}

}  // namespace geores
