// metrics.jsonl of a run: one JSON object a line, each with its "step". Lines are appended and
// flushed at once, so a killed process loses no line that it wrote.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace geores {

class MetricsLog {
 public:
  MetricsLog() = default;  // writes nothing

  // Keeps the lines of steps before `first_step` (a resumed run writes the later ones again) and
  // drops a last line that was cut off.
  MetricsLog(const std::string& path, int64_t first_step);

  void write(const nlohmann::json& line);

  // The last number under a key in the kept lines; `otherwise` if there is none.
  double last_kept(const std::string& key, double otherwise) const;

 private:
  std::string path_;
  std::ofstream file_;
  std::map<std::string, double> last_kept_;
};

}  // namespace geores
