#include "lab/experiments/findings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "geores/base/error.h"
#include "geores/train/run/finished_run.h"
#include "lab/experiments/own/contrasts.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

nlohmann::json json_of(const Sample& sample) {
  if (!sample.known()) return nullptr;
  return {{"mean", number(sample.mean)},
          {"deviation", number(sample.deviation)},
          {"count", sample.count}};
}

nlohmann::json json_of(const Welch& test) {
  if (!test.known()) return nullptr;
  return {{"t", test.t}, {"freedom", test.freedom}, {"p", test.p}};
}

double ratio_of(const Sample& better, const Sample& worse) {
  return better.known() && worse.known() ? worse.mean / better.mean : std::nan("");
}

}  // namespace

nlohmann::json to_json(const ExperimentFindings& findings) {
  const auto& experiment = findings.experiment;
  auto columns = nlohmann::json::array();
  for (const auto& column : experiment.columns) {
    auto arms = nlohmann::json::array();
    for (const auto& arm : experiment.arms) {
      const auto& cell = findings.cell(column.name, arm.name);
      const auto published = arm.published.find(column.name);
      auto runs =
          nlohmann::json::array();  // paths inside of the report's folder, so that it can be moved
      for (const auto& run : cell.runs)
        runs.push_back((fs::path("runs") / fs::path(run).filename()).string());
      arms.push_back({{"name", arm.name},
                      {"label", arm.label},
                      {"config", arm.config},
                      {"parameters", cell.parameters},
                      {"published", published == arm.published.end() ? nlohmann::json()
                                                                     : json_of(published->second)},
                      {"best", json_of(sample_of(cell.best))},
                      {"best_values", cell.best},
                      {"exact", json_of(sample_of(cell.exact))},
                      {"exact_values", cell.exact},
                      {"diverged", cell.diverged},
                      {"seconds", cell.seconds},
                      {"runs", runs}});
    }
    auto baselines = nlohmann::json::object();
    if (const auto found = findings.baselines.find(column.name); found != findings.baselines.end())
      for (const auto& baseline : found->second) baselines[baseline.name] = baseline.mse;
    columns.push_back({{"name", column.name},
                       {"config", column.config},
                       {"arms", arms},
                       {"trivial_baselines", baselines}});
  }
  nlohmann::json object = {
      {"name", experiment.name}, {"title", experiment.title}, {"columns", columns}};
  if (experiment.is_own()) object["contrasts"] = contrasts_to_json(contrasts_of(findings));
  return object;
}

nlohmann::json to_json(const Judgement& one) {
  return {{"claim", one.claim.text},
          {"column", one.claim.column},
          {"better", one.claim.better},
          {"worse", one.claim.worse},
          {"published_ratio", number(one.published_ratio)},
          {"published_test", json_of(one.published)},
          {"measured_ratio", number(one.measured_ratio)},
          {"measured_test", json_of(one.measured)},
          {"verdict", one.verdict}};
}

std::string verdict(double ratio, const Welch& test) {
  if (!test.known() || test.p >= 0.05) return "open";
  return ratio > 1 ? "holds" : "reversed";
}

const ExperimentFindings* Findings::find(const std::string& name) const {
  for (const auto& one : experiments)
    if (one.experiment.name == name) return &one;
  return nullptr;
}

Judgement judge(const Claim& claim, const ExperimentFindings& findings, JudgedBy by) {
  const auto published = [&](const std::string& arm) {
    const auto& known = findings.experiment.arm(arm).published;
    const auto found = known.find(claim.column);
    return found == known.end() ? Sample() : found->second;
  };
  const auto measured = [&](const std::string& arm) {
    const auto& cell = findings.cell(claim.column, arm);
    return sample_of(by == JudgedBy::whole_set ? cell.exact : cell.best);
  };
  Judgement judgement{claim,
                      ratio_of(published(claim.better), published(claim.worse)),
                      ratio_of(measured(claim.better), measured(claim.worse)),
                      welch_test(published(claim.better), published(claim.worse)),
                      welch_test(measured(claim.better), measured(claim.worse)),
                      {}};
  judgement.verdict = verdict(judgement.measured_ratio, judgement.measured);
  return judgement;
}

namespace {

// The command may have selected only some arms or columns.
bool was_tried(const Claim& claim, const Experiment& experiment) {
  const auto has = [](const auto& list, const std::string& name) {
    return std::ranges::any_of(list, [&](const auto& one) { return one.name == name; });
  };
  return has(experiment.columns, claim.column) && has(experiment.arms, claim.better) &&
         has(experiment.arms, claim.worse);
}

}  // namespace

std::vector<Judgement> Findings::judgements() const {
  std::vector<Judgement> all;
  for (const auto& claim : paper_claims()) {
    const auto* findings = find(claim.experiment);
    if (findings && was_tried(claim, findings->experiment))
      all.push_back(judge(claim, *findings, JudgedBy::random_batches));
  }
  return all;
}

nlohmann::json Findings::to_json() const {
  nlohmann::json object = {{"scale", scale.name},
                           {"comparable_with_published", scale.comparable()},
                           {"device", hardware.device},
                           {"precision", hardware.precision},
                           {"train_seconds", train_seconds},
                           {"experiments", nlohmann::json::array()},
                           {"claims", nlohmann::json::array()},
                           {"reflection", nlohmann::json::object()},
                           {"norms", norms}};
  if (!own_norms.empty()) object["own_norms"] = own_norms;
  for (const auto& one : experiments) object["experiments"].push_back(geores::to_json(one));
  for (const auto& one : judgements()) object["claims"].push_back(geores::to_json(one));
  if (!norms.empty()) {
    object["norms_published"] = published_norm_deviations();
    object["norms_baselines"] = {{"copy", 0.0},
                                 {"running_mean", running_mean_deviation(norm_length)}};
  }
  if (!reflection.empty())
    for (const auto& probe : reflection_probes())
      if (!std::isnan(probe.published_cosine))
        object["reflection_published"][probe.name] = {{"cosine", probe.published_cosine},
                                                      {"gate", json_of(probe.published_gate)}};
  for (const auto& [probe, by_samples] : reflection)
    for (const auto& [samples, results] : by_samples)
      object["reflection"][probe][std::to_string(samples)] = results;
  return object;
}

ExperimentFindings read_findings(const Experiment& experiment, const Scale& scale,
                                 const Hardware& hardware, const std::string& folder,
                                 Unfinished unfinished) {
  ExperimentFindings findings{experiment, {}, {}};
  for (const auto& column : experiment.columns)
    for (const auto& arm : experiment.arms) {
      auto& cell = findings.cells[column.name][arm.name];
      for (const auto seed : scale.seeds(experiment)) {
        const auto config = run_config(column, arm, seed, scale, hardware);
        const auto run = (fs::path(folder) / "runs" / run_name(config)).string();
        if (unfinished == Unfinished::left_out && !fs::exists(fs::path(run) / "result.json"))
          continue;
        const auto result = read_result(run);
        cell.runs.push_back(run);
        cell.parameters = result.at("parameters").get<int64_t>();
        cell.seconds += result.at("seconds").get<double>();
        // No evaluation was finite: the run has diverged, even if its training losses were finite.
        if (result.at("diverged").get<bool>() || result.at("best_validation").is_null() ||
            result.at("exact_best").is_null()) {
          ++cell.diverged;
          continue;
        }
        cell.best.push_back(result.at("best_validation").get<double>());
        cell.exact.push_back(result.at("exact_best").get<double>());
        cell.seeds.push_back(seed);
      }
    }
  return findings;
}

ExperimentFindings read_findings(const Experiment& experiment, const Scale& scale,
                                 const Hardware& hardware, const std::string& folder,
                                 DatasetShelf& shelf) {
  auto findings = read_findings(experiment, scale, hardware, folder);
  for (const auto& column : experiment.columns) {
    const auto any = run_config(column, experiment.arms.front(), 42, scale, hardware);
    findings.baselines[column.name] = shelf.baselines(any.task);
  }
  return findings;
}

}  // namespace geores
