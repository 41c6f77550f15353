#include "lab/experiments/language/verdicts.h"

#include <fmt/format.h>
#include <ranges>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lab/experiments/language/language_figures.h"

namespace geores {
namespace {

using nlohmann::json;

std::string text_of_sample(const Sample& sample) {
  if (!sample.known()) return "";
  if (std::isnan(sample.deviation)) return fmt::format("{:.4f}", sample.mean);
  return fmt::format("{:.4f} ± {:.4f}", sample.mean, sample.deviation);
}

std::string text_of_test(double t, double p) {
  return std::isnan(p) ? "too few seeds" : fmt::format("t = {:.2f}, p = {:.2g}", t, p);
}

std::string verdict_of(bool as_claimed, double p) {
  if (!(p < 0.05)) return "open";
  return as_claimed ? "holds" : "reversed";
}

// "The mean is above (below) a number."
Verdict about_mean(const std::string& claim, const std::vector<double>& values, double against,
                   bool above, const std::string& control) {
  const auto sample = sample_of(values);
  const auto test = test_of_mean(sample, against);
  return {claim, text_of_sample(sample), text_of_test(test.t, test.p), control,
          sample.known() ? verdict_of((sample.mean > against) == above, test.p) : "open"};
}

// "a is smaller than b."
Verdict about_two(const std::string& claim, const std::vector<double>& a,
                  const std::vector<double>& b, const std::string& control) {
  const auto left = sample_of(a), right = sample_of(b);
  const auto test = welch_test(left, right);
  return {claim, text_of_sample(left) + " : " + text_of_sample(right), text_of_test(test.t, test.p),
          control, verdict_of(left.mean < right.mean, test.p)};
}

void add_ranks(std::vector<Verdict>& all, const LanguageFindings& findings) {
  const auto* rank = findings.find("rank");
  if (rank == nullptr) return;
  const auto& columns = rank->experiment.columns;
  const auto ends = [&](const std::string& arm, const Column& column) {
    std::vector<double> values;
    for (const auto& run : rank->cell(column.name, arm).runs)
      if (const auto* one = findings.measured_on(run);
          one && one->contains("/end/relative_rank"_json_pointer))
        values.push_back(one->at("end").at("relative_rank").at("plain").back().get<double>());
    return values;
  };
  const auto deepest = [&](const std::string& arm) {
    for (const auto& column : columns | std::views::reverse)
      if (!ends(arm, column).empty()) return column;
    return columns.back();
  };
  // The column of the claim, if the table lacks its last one.
  const auto at = [&](const Column& column) {
    return column.name == columns.back().name ? "" : fmt::format(" ({} only)", column.label);
  };
  for (const auto* arm : {"post", "pre"}) {
    const auto last = deepest(arm);
    all.push_back(about_two(fmt::format("H1: the rank of {} at the end falls with depth{}",
                                        rank->experiment.arm(arm).label, at(last)),
                            ends(arm, last), ends(arm, columns.front()),
                            "pre-norm at its best learning rate"));
  }
  const auto last = deepest("mgt");
  all.push_back(about_mean("H2: the rank of MGT stays above 0.5 at the greatest depth" + at(last),
                           ends("mgt", last), 0.5, true, "pre-norm in the same table"));
}

void add_synergy(std::vector<Verdict>& all, const LanguageFindings& findings) {
  const auto* ablation = findings.find("ablation");
  if (ablation == nullptr) return;
  const auto& column = ablation->experiment.columns.front().name;
  for (const auto* base : {"pre", "post"})
    all.push_back(about_mean(
        fmt::format("S > 0 with {} as base", ablation->experiment.arm(base).label),
        synergy(*ablation, column, base), 0, true, "the four losses of S; matched parameters"));
}

// β of every operator at the end of a run: the last line of its diagnostics.jsonl, which every
// trained seed has. A copied run may lack it; the measurement on its best weights replaces it then.
json betas_at_end(const LanguageFindings& findings, const std::string& run) {
  const json::json_pointer beta("/beta"), measured("/end/beta");
  if (const auto lines = read_diagnostics(run); !lines.empty() && lines.back().contains(beta))
    return lines.back()[beta];
  const auto* one = findings.measured_on(run);
  return one != nullptr && one->contains(measured) ? (*one)[measured] : json();
}

// A number of the first (or last) tenth of the operators of every run.
std::vector<double> tenths(const LanguageFindings& findings, const CellFindings& cell, bool last,
                           const char* key) {
  std::vector<double> values;
  for (const auto& run : cell.runs) {
    const auto betas = betas_at_end(findings, run);
    if (betas.empty()) continue;
    const auto count = betas.size(), part = std::max<size_t>(1, count / 10);
    double sum = 0;
    for (size_t i = 0; i < part; ++i)
      sum += betas.at(last ? count - 1 - i : i).at(key).get<double>();
    values.push_back(sum / static_cast<double>(part));
  }
  return values;
}

void add_betas(std::vector<Verdict>& all, const LanguageFindings& findings) {
  const auto* beta = findings.find("beta");
  if (beta == nullptr) return;
  const auto &text = beta->experiment.columns.front().name,
             &noise = beta->experiment.columns.back().name;
  for (const auto& arm : beta->experiment.arms) {
    const auto &real = beta->cell(text, arm.name), &null = beta->cell(noise, arm.name);
    if (real.runs.empty()) continue;
    all.push_back(about_mean(fmt::format("β of the last tenth is negative, {}", arm.label),
                             tenths(findings, real, true, "mean"), 0, false, "shuffled tokens"));
    all.push_back(about_two(fmt::format("β falls with depth, {}", arm.label),
                            tenths(findings, real, true, "mean"),
                            tenths(findings, real, false, "mean"), "shuffled tokens"));
    all.push_back(
        about_two(fmt::format("β < 0 is rarer on shuffled tokens than on text, {}", arm.label),
                  tenths(findings, null, true, "negative"),
                  tenths(findings, real, true, "negative"), "this is the control"));
  }
}

// Losses of the arms by seed, for the seeds that all arms have.
std::vector<std::vector<double>> by_seed(const ExperimentFindings& findings,
                                         const std::string& column,
                                         const std::vector<std::string>& arms) {
  std::vector<std::vector<double>> all;
  for (const auto seed : findings.cell(column, arms.front()).seeds) {
    auto& losses = all.emplace_back();
    for (const auto& arm : arms) {
      const auto& cell = findings.cell(column, arm);
      const auto at = std::ranges::find(cell.seeds, seed) - cell.seeds.begin();
      if (at < std::ssize(cell.seeds)) losses.push_back(cell.exact[static_cast<size_t>(at)]);
    }
    if (losses.size() < arms.size()) all.pop_back();
  }
  return all;
}

void add_depth(std::vector<Verdict>& all, const LanguageFindings& findings) {
  const auto* depth = findings.find("depth");
  if (depth == nullptr || depth->experiment.columns.size() < 2) return;
  const auto losses = [&](const Column& column, const char* arm) {
    return depth->cell(column.name, arm).exact;
  };
  // The first and the last depth at which all these arms are trained; with fewer than two the
  // verdict is open.
  const auto ends = [&](const std::vector<const char*>& arms) {
    const auto& columns = depth->experiment.columns;
    const auto trained = [&](const Column& column) {
      return std::ranges::none_of(arms, [&](auto* arm) { return losses(column, arm).empty(); });
    };
    const auto first = std::ranges::find_if(columns, trained);
    const auto last = std::ranges::find_if(columns.rbegin(), columns.rend(), trained);
    if (first == columns.end() || &*first == &*last)
      return std::tuple(columns.front(), columns.back(), std::string());
    const bool whole = first == columns.begin() && last == columns.rbegin();
    return std::tuple(*first, *last,
                      whole ? "" : fmt::format(" ({} to {} only)", first->label, last->label));
  };
  const auto [small, large, mgt_only] = ends({"mgt"});
  all.push_back(about_two("MGT gains from depth at an equal number of parameters" + mgt_only,
                          losses(large, "mgt"), losses(small, "mgt"),
                          "pre-norm at its best learning rate"));
  const auto gap = [&](const Column& column) {
    std::vector<double> gaps;
    for (const auto& of_seed : by_seed(*depth, column.name, {"pre", "mgt"}))
      gaps.push_back(of_seed[0] - of_seed[1]);
    return gaps;
  };
  const auto [first, last, both_only] = ends({"pre", "mgt"});
  all.push_back(about_two("MGT's lead over pre-norm grows with depth" + both_only, gap(first),
                          gap(last), "pre-norm at its best learning rate"));
}

}  // namespace

MeanTest test_of_mean(const Sample& sample, double against) {
  const auto nan = std::nan("");
  if (sample.count < 2 || !(sample.deviation > 0)) return {nan, nan};
  const auto t = (sample.mean - against) / (sample.deviation / std::sqrt(sample.count));
  return {t, student_two_sided(t, sample.count - 1)};
}

std::vector<double> synergy(const ExperimentFindings& ablation, const std::string& column,
                            const std::string& base) {
  std::vector<double> all;
  for (const auto& loss : by_seed(ablation, column, {"mhc", "ddl", base, "mgt"}))
    all.push_back(loss[0] + loss[1] - loss[2] - loss[3]);
  return all;
}

std::vector<double> over_runs(const LanguageFindings& findings, const CellFindings& cell,
                              const std::string& pointer) {
  std::vector<double> values;
  const json::json_pointer number_path(pointer);
  for (const auto& run : cell.runs)
    if (const auto* one = findings.measured_on(run))
      if (one->contains(number_path) && (*one)[number_path].is_number())
        values.push_back((*one)[number_path].get<double>());
  return values;
}

namespace {

// The claim at the last column with runs of both arms, if the stated column has none.
Claim where_trained(Claim claim, const ExperimentFindings& findings) {
  const auto trained = [&](const std::string& column) {
    return !findings.cell(column, claim.better).exact.empty() &&
           !findings.cell(column, claim.worse).exact.empty();
  };
  if (trained(claim.column)) return claim;
  for (const auto& column : findings.experiment.columns | std::views::reverse)
    if (trained(column.name)) {
      claim.column = column.name;
      claim.text += fmt::format(" ({} only)", column.label);
      break;
    }
  return claim;
}

}  // namespace

std::vector<Verdict> language_verdicts(const LanguageFindings& findings) {
  std::vector<Verdict> all;
  for (const auto& stated : findings.paper.claims) {
    const auto* experiment = findings.find(stated.experiment);
    if (experiment == nullptr) continue;
    const auto claim = where_trained(stated, *experiment);
    const auto one = judge(claim, *experiment, JudgedBy::whole_set);
    const auto losses = [&](const std::string& arm) {
      return text_of_sample(sample_of(experiment->cell(claim.column, arm).exact));
    };
    all.push_back({claim.text, losses(claim.better) + " : " + losses(claim.worse),
                   text_of_test(one.measured.t, one.measured.p),
                   experiment->experiment.rates.empty() ? "one learning rate for all"
                                                        : "each at its best learning rate",
                   one.verdict});
  }
  add_ranks(all, findings);
  add_synergy(all, findings);
  add_betas(all, findings);
  add_depth(all, findings);
  return all;
}

}  // namespace geores
