#include "geores/puzzles/scoring/reflection_index.h"

#include <algorithm>
#include <numeric>

#include "geores/base/error.h"
#include "geores/puzzles/random.h"

namespace geores::puzzles {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_of_draw(const std::vector<double>& values, Random& random) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    sum += values[static_cast<std::size_t>(random.below(static_cast<int64_t>(values.size())))];
  return sum / static_cast<double>(values.size());
}

std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) {
  require(a.size() == b.size(), "puzzles", "scores of {} and {} tasks cannot be paired", a.size(),
          b.size());
  std::vector<double> result(a.size());
  std::ranges::transform(a, b, result.begin(), std::minus<>());
  return result;
}

}  // namespace

nlohmann::json Interval::to_json() const {
  return {{"value", value}, {"low", low}, {"high", high}};
}

Interval reflection_index(const TaskScores& scores, int64_t draws, uint64_t seed) {
  require(!scores.reflect.empty() && !scores.control.empty(), "puzzles",
          "the index of reflection needs tasks of both classes");
  require(draws >= 40, "puzzles", "a bootstrap needs at least 40 draws, got {}", draws);
  std::vector<double> drawn(static_cast<std::size_t>(draws));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    Random random({seed, 0xb007, i});
    drawn[i] = mean_of_draw(scores.reflect, random) - mean_of_draw(scores.control, random);
  }
  std::ranges::sort(drawn);
  const auto at = [&](double share) {
    return drawn[static_cast<std::size_t>(share * static_cast<double>(draws - 1) + 0.5)];
  };
  return {mean(scores.reflect) - mean(scores.control), at(0.025), at(0.975)};
}

Interval reflection_difference(const TaskScores& a, const TaskScores& b, int64_t draws,
                               uint64_t seed) {
  return reflection_index({differences(a.reflect, b.reflect), differences(a.control, b.control)},
                          draws, seed);
}

}  // namespace geores::puzzles
