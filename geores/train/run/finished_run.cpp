#include "geores/train/run/finished_run.h"

#include <filesystem>
#include <sstream>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"

namespace geores {
namespace fs = std::filesystem;

nlohmann::json read_result(const std::string& run_folder) {
  const auto path = (fs::path(run_folder) / "result.json").string();
  auto result = parse_json(read_text_file(path), path);
  const auto check = [&](const char* key, bool fits) {
    require(fits, path, "'{}' is missing or invalid", key);
  };
  const auto value = [&](const char* key) {
    return result.is_object() ? result.value(key, nlohmann::json("")) : nlohmann::json("");
  };
  for (const auto* key : {"parameters", "steps"}) check(key, value(key).is_number_integer());
  check("seconds", value("seconds").is_number());
  check("diverged", value("diverged").is_boolean());
  for (const auto* key : {"best_validation", "exact_best"})  // null: not finite
    check(key, value(key).is_number() || value(key).is_null());
  return result;
}

std::vector<nlohmann::json> read_metrics(const std::string& run_folder) {
  const auto path = (fs::path(run_folder) / "metrics.jsonl").string();
  std::istringstream text(read_text_file(path));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(parse_json(line, path));
    require(lines.back().is_object() && lines.back().contains("step") &&
                lines.back()["step"].is_number(),
            path, "line {} has no step", lines.size());
  }
  return lines;
}

}  // namespace geores
