#include "geores/train/run/metrics_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "geores/base/error.h"
#include "geores/base/file.h"

namespace geores {
namespace {

// Reads a step below `end`. JSON's integers exceed int64_t.
bool is_step(const nlohmann::json& value, int64_t end) {
  return value.is_number_unsigned() && std::in_range<int64_t>(value.get<uint64_t>()) &&
         value.get<int64_t>() < end;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, int64_t first_step) : path_(path) {
  std::string kept;
  if (std::filesystem::exists(path)) {
    std::istringstream lines(read_text_file(path));
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!object.is_object() || !object.contains("step") || !is_step(object["step"], first_step))
        continue;
      kept += line + "\n";
      for (const auto& [key, value] : object.items())
        if (value.is_number()) last_kept_[key] = value.get<double>();
    }
  }
  write_file_atomically(path, kept);
  file_.open(path, std::ios::app);
}

void MetricsLog::write(const nlohmann::json& line) {
  if (path_.empty()) return;
  file_ << line.dump() << '\n' << std::flush;
  require(file_.good(), path_, "cannot be written: {}", std::strerror(errno));
}

double MetricsLog::last_kept(const std::string& key, double otherwise) const {
  const auto found = last_kept_.find(key);
  return found == last_kept_.end() ? otherwise : found->second;
}

}  // namespace geores
