#include "geores/puzzles/scoring/arc_scores.h"

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"
#include "geores/puzzles/scoring/reflection_index.h"
#include "geores/puzzles/tokens.h"

namespace geores::puzzles {
namespace {

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

}  // namespace

void ArcScores::add(int32_t identifier, std::span<const int32_t> input,
                    std::span<const int32_t> prediction, double q_halt) {
  const auto group = static_cast<std::size_t>(tables_.group(identifier));
  const auto& variant = tables_.variant(identifier);
  const auto question = undo(variant, crop(input, canvas_));
  predictions_[{group, grid_hash(question)}].push_back(
      {undo(variant, crop(prediction, canvas_)), sigmoid(q_halt)});
}

const std::vector<Prediction>& ArcScores::predictions(std::size_t group, const Grid& input) const {
  static const std::vector<Prediction> none;
  const auto found = predictions_.find({group, grid_hash(input)});
  return found == predictions_.end() ? none : found->second;
}

std::vector<std::vector<Candidate>> ArcScores::rankings(std::size_t group) const {
  std::vector<std::vector<Candidate>> all;
  for (const auto& test : tables_.groups.at(group).test)
    all.push_back(rank(predictions(group, test.input)));
  return all;
}

template <class Score>
double ArcScores::mean_over_tests(std::size_t group, Score score) const {
  const auto& tests = tables_.groups.at(group).test;
  double sum = 0;
  for (const auto& test : tests) sum += score(predictions(group, test.input), test.output);
  return sum / static_cast<double>(tests.size());
}

template <class Score>
double ArcScores::mean_over_tasks(Score score) const {
  double sum = 0, tasks = 0;
  for (std::size_t group = 0; group < tables_.groups.size(); ++group) {
    if (tables_.groups[group].test.empty()) continue;
    sum += score(group);
    ++tasks;
  }
  return tasks > 0 ? sum / tasks : 0;
}

double ArcScores::vote_ranked(std::size_t group, int64_t k) const {
  return mean_over_tests(group, [&](const std::vector<Prediction>& all, const Grid& right) {
    return in_first(rank(all), right, k) ? 1.0 : 0.0;
  });
}

double ArcScores::sampled(std::size_t group, int64_t k) const {
  return mean_over_tests(group, [&](const std::vector<Prediction>& all, const Grid& right) {
    const auto hits =
        std::ranges::count_if(all, [&](const Prediction& each) { return each.grid == right; });
    return sampled_pass(static_cast<int64_t>(all.size()), hits, k);
  });
}

double ArcScores::vote_ranked(int64_t k) const {
  return mean_over_tasks([&](std::size_t group) { return vote_ranked(group, k); });
}

double ArcScores::sampled(int64_t k) const {
  return mean_over_tasks([&](std::size_t group) { return sampled(group, k); });
}

nlohmann::json ArcScores::results() const {
  nlohmann::json result;
  int64_t tasks = 0, inputs = 0, without = 0, matched = 0, all = 0;
  TaskScores scores;
  for (std::size_t group = 0; group < tables_.groups.size(); ++group) {
    const auto& [task, subset, label, train, tests] = tables_.groups[group];
    if (tests.empty()) continue;
    ++tasks;
    for (const auto& test : tests) {
      const auto count = predictions(group, test.input).size();
      ++inputs;
      without += count == 0;
      matched += static_cast<int64_t>(count);
    }
    if (label == "reflect") scores.reflect.push_back(vote_ranked(group, 1));
    if (label == "control") scores.control.push_back(vote_ranked(group, 1));
  }
  for (const auto& each : predictions_) all += static_cast<int64_t>(each.second.size());
  result["tasks"] = tasks;
  result["test_inputs"] = inputs;
  result["test_inputs_without_predictions"] = without;
  // Equal test inputs of a task share their predictions, so more may match than there are.
  result["unmatched_predictions"] = std::max<int64_t>(0, all - matched);
  for (const auto k : kPassAt) {
    result["pass_at_k"][std::to_string(k)] = vote_ranked(k);
    result["sampled_pass_at_k"][std::to_string(k)] = sampled(k);
  }
  if (!scores.reflect.empty() && !scores.control.empty())
    result["reflection_index"] = reflection_index(scores).to_json();
  return result;
}

nlohmann::json ArcScores::submission() const {
  nlohmann::json result = nlohmann::json::object();
  for (std::size_t group = 0; group < tables_.groups.size(); ++group) {
    if (tables_.groups[group].test.empty()) continue;
    auto attempts = nlohmann::json::array();
    for (const auto& ranking : rankings(group)) {
      const auto blank = nlohmann::json::array({nlohmann::json::array({0})});
      const auto attempt = [&](std::size_t i) {
        return ranking.empty() ? blank : to_json(ranking[std::min(i, ranking.size() - 1)].grid);
      };
      attempts.push_back({{"attempt_1", attempt(0)}, {"attempt_2", attempt(1)}});
    }
    result[tables_.groups[group].task] = std::move(attempts);
  }
  return result;
}

}  // namespace geores::puzzles
