// The models of the EΔ paper's tables as configurations, for `geores train --preset` and for experiments.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace geores {

struct Preset {
  std::string name, label;
  nlohmann::json config;  // keys of TrainConfig, the connection's options included
};

const std::vector<Preset>& presets();

// Fails for an unknown name; `where` names the command.
const Preset& preset(const std::string& name, const std::string& where = "preset");

}  // namespace geores
