// The figures of a language report as SVG texts; "" where nothing was measured.
#pragma once

#include <string>
#include <vector>

#include "lab/diagnostics/mixer_measures.h"
#include "lab/experiments/language/reproduce_language.h"

namespace geores {

// The lines of a run's diagnostics.jsonl; none without the file.
std::vector<nlohmann::json> read_diagnostics(const std::string& run_folder);

// Up to four indices in 0 .. count − 1, the first and the last among them.
std::vector<std::size_t> quarters(std::size_t count);

// The indices of the lines nearest to 0, 25, 50 and 100 % of the last one's steps (MGT's times for
// β).
std::vector<std::size_t> quarters_of_training(const std::vector<nlohmann::json>& lines);

// Validation losses by tokens and by seconds, train losses by tokens.
std::string loss_figure(const ExperimentFindings& findings);
// Validation losses by tokens minus those of the first arm with runs, over the seeds that both
// have.
std::string difference_figure(const ExperimentFindings& findings);
// Norms of gradients before clipping: medians and maxima over a hundred steps.
std::string gradient_figure(const ExperimentFindings& findings);
// Mixers, cosines of streams and ranks by step, first seed.
std::string over_training_figure(const ExperimentFindings& findings);
std::string rank_figure(const LanguageFindings& all, const ExperimentFindings& findings);
std::string beta_figure(const ExperimentFindings& findings);
// β of every operator at every evaluation as a heat map.
std::string beta_heat_figure(const ExperimentFindings& findings);
// 1, 5, 50, 95 and 99 % of β by step, of four operators.
std::string beta_quantile_figure(const ExperimentFindings& findings);
std::string mixer_figure(const LanguageFindings& all, const ExperimentFindings& findings);
std::string entry_figure(const LanguageFindings& all, const ExperimentFindings& findings);
// The mean mixer at four depths and the composite of one arm, with their entries.
std::string heat_figure(const nlohmann::json& mixers, const std::string& title);

}  // namespace geores
