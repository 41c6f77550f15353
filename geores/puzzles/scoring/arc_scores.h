// Scores of an ARC evaluation: votes over all variants of each test input.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "geores/puzzles/dataset.h"
#include "geores/puzzles/scoring/vote.h"

namespace geores::puzzles {

inline constexpr std::array<int64_t, 6> kPassAt = {1, 2, 5, 10, 100, 1000};

class ArcScores {
 public:
  explicit ArcScores(const ArcTables& tables, int canvas) : tables_(tables), canvas_(canvas) {}

  // Tokens of the input and of the prediction for a variant, canvas² each, and the logit q_halt.
  // Both are cropped and turned back; the input says which test of the task is answered.
  void add(int32_t identifier, std::span<const int32_t> input, std::span<const int32_t> prediction,
           double q_halt);

  // Per test of the task, in the order of its tests; no candidates without predictions.
  std::vector<std::vector<Candidate>> rankings(std::size_t group) const;

  // Mean over all tasks with tests, those without predictions included, of the share of a task's
  // tests that pass.
  double vote_ranked(int64_t k) const;
  double sampled(int64_t k) const;
  // The same of one task.
  double vote_ranked(std::size_t group, int64_t k) const;
  double sampled(std::size_t group, int64_t k) const;

  // pass_at_k, sampled_pass_at_k, tasks, test_inputs, test_inputs_without_predictions,
  // unmatched_predictions; for Reflect-Lite also the index of reflection (reflection_index.h).
  nlohmann::json results() const;

  // {task: [{"attempt_1": grid, "attempt_2": grid}, one for each test], …}: the first two
  // candidates; a single one is repeated; [[0]] without any.
  nlohmann::json submission() const;

 private:
  struct Key {
    std::size_t group;
    std::string input;  // hash of the test input
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::string>()(key.input) ^ key.group;
    }
  };
  const std::vector<Prediction>& predictions(std::size_t group, const Grid& input) const;
  template <class Score>
  double mean_over_tests(std::size_t group, Score score) const;
  template <class Score>
  double mean_over_tasks(Score score) const;

  const ArcTables& tables_;
  int canvas_;
  std::unordered_map<Key, std::vector<Prediction>, KeyHash> predictions_;
};

}  // namespace geores::puzzles
