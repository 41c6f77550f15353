#include "geores/train/run/made_with.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>

#include "geores/train/device/recorded_work.h"
#include "geores/train/run/version.h"

namespace geores {
namespace {

// Linux on ARM reports a part number instead of a name.
const std::map<std::string, std::string> kArmParts = {{"0xd0c", "Neoverse-N1"},
                                                      {"0xd40", "Neoverse-V1"},
                                                      {"0xd49", "Neoverse-N2"},
                                                      {"0xd4f", "Neoverse-V2"}};

}  // namespace

std::string processor_in(const std::string& cpuinfo) {
  std::string name;
  int count = 0;
  std::istringstream text(cpuinfo);
  for (std::string line; std::getline(text, line);) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const auto key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const auto value = line.substr(colon + 2);
    if (key == "processor") ++count;
    if (key == "model name") name = value;
    if (key != "CPU part" || !name.empty()) continue;
    const auto known = kArmParts.find(value);
    name = known != kArmParts.end() ? known->second : "ARM " + value;
  }
  return name.empty() ? "unknown" : fmt::format("{} × {}", count, name);
}

nlohmann::json made_with(const std::string& device) {
  std::ostringstream cpuinfo;
  if (device != "cuda") cpuinfo << std::ifstream("/proc/cpuinfo").rdbuf();
  return {{"machine", device == "cuda" ? gpu_name() : processor_in(cpuinfo.str())},
          {"program", version_and_commit()}};
}

}  // namespace geores
