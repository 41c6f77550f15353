// A reproduction as a document: first the verdicts, then every table with published and measured
// numbers and trivial predictors, then the figures.
#pragma once

#include "geores/base/pages/document.h"
#include "lab/experiments/findings.h"

namespace geores {

Document make_report(const Findings& findings);

// Writes index.html, tables.md, results.json and figures/ into a folder whose figures/ exists.
void write_report(const std::string& folder, const Document& document,
                  const nlohmann::json& results);

// "3.78 ± 0.04 e−3"; without a deviation "3.78e−3"; "" if unknown.
std::string format_sample(const Sample& sample);

}  // namespace geores
