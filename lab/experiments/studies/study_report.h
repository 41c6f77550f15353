// A study as a document: the arms' results next to predictors without a model, by difficulty, with
// other identifiers (ARC), the differences with their tests, and learning curves.
#pragma once

#include <nlohmann/json.hpp>

#include "geores/base/pages/document.h"
#include "lab/experiments/statistics.h"
#include "lab/experiments/studies/studies.h"

namespace geores {

// A number of an arm's evaluations over its finished runs; unknown if no run has it.
Sample sample_of_arm(const nlohmann::json& arm, const std::string& number);

// `results` as run_study() returns them; arms without a finished run are omitted.
Document make_study_report(const Study& study, const nlohmann::json& results);

}  // namespace geores
