// The information in a run's folder about its training text.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/text/tokenizer.h"

namespace geores::cli {

// The facts about the data in model.json (DataOrigin::facts); empty in old runs.
nlohmann::json origin_of_run(const std::string& run);

// The tokeniser in the folder. Refuses one that the run was not trained with.
std::shared_ptr<Tokenizer> tokenizer_of_run(const std::string& run);

}  // namespace geores::cli
