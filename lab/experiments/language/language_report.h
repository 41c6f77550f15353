// The report of a language paper: claims with verdicts, learning rates, losses, and measurements
// inside the models.
#pragma once

#include "geores/base/pages/document.h"
#include "lab/experiments/language/reproduce_language.h"

namespace geores {

Document make_language_report(const LanguageFindings& findings);

}  // namespace geores
