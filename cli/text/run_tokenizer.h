// The tokeniser in a run's folder. Refuses one that the run was not trained with.
#pragma once

#include <memory>
#include <string>

#include "geores/text/tokenizer.h"

namespace geores::cli {

std::shared_ptr<Tokenizer> tokenizer_of_run(const std::string& run);

}  // namespace geores::cli
