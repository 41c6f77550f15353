// The tables of a language report. Cells without a finished run are left empty; a table without rows
// is not shown.
#pragma once

#include "geores/base/pages/table.h"
#include "lab/experiments/language/reproduce_language.h"

namespace geores {

Table verdict_table(const LanguageFindings& all);
Table sweep_table(const Experiment& experiment, const ExperimentFindings& sweep);
// Omits columns without a known value.
Table loss_table(const LanguageFindings& all, const ExperimentFindings& findings);
Table ngram_table(const LanguageFindings& all);
Table other_text_table(const LanguageFindings& all, const ExperimentFindings& findings);
Table rank_table(const LanguageFindings& all, const ExperimentFindings& findings);
Table synergy_table(const ExperimentFindings& ablation);
Table beta_table(const ExperimentFindings& findings);
Table target_table(const ExperimentFindings& depth);
Table mixer_table(const LanguageFindings& all, const ExperimentFindings& findings);
Table use_table(const LanguageFindings& all, const ExperimentFindings& findings);
// The mean mixer at four depths and the composite, with sums at the margins.
Table heat_table(const nlohmann::json& mixers);

// The measurements on a cell's first measured run; null if there is none.
const nlohmann::json* first_measured(const LanguageFindings& all, const CellFindings& cell);

}  // namespace geores
