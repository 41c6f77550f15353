// What made a run, for its result.json: numbers of speed mean nothing without the machine, and a run can
// be repeated only with the program that made it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace geores {

// {"machine": the GPU's or the processor's name, "program": version_and_commit()}.
nlohmann::json made_with(const std::string& device);

// The processor that a text of /proc/cpuinfo describes, with how many there are: "2 × Neoverse-N1".
std::string processor_in(const std::string& cpuinfo);

}  // namespace geores
