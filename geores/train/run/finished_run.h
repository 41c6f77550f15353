// The files of a finished run: result.json and the lines of metrics.jsonl.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace geores {

nlohmann::json read_result(const std::string& run_folder);
std::vector<nlohmann::json> read_metrics(const std::string& run_folder);

}  // namespace geores
