// The machine and program of a run, for its result.json: speeds mean nothing without the machine,
// and a run can be repeated only with the same program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace geores {

// {"machine": the GPU's or the processor's name, "program": version_and_commit()}.
nlohmann::json made_with(const std::string& device);

// The processor in a text of /proc/cpuinfo, with its number of cores: "2 × Neoverse-N1".
std::string processor_in(const std::string& cpuinfo);

}  // namespace geores
