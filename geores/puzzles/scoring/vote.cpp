#include "geores/puzzles/scoring/vote.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace geores::puzzles {

std::vector<Candidate> rank(std::span<const Prediction> predictions) {
  std::vector<Candidate> candidates;
  std::map<std::tuple<int, int, std::vector<uint8_t>>, std::size_t> index_of;
  for (const auto& [grid, confidence] : predictions) {
    const auto [found, is_new] =
        index_of.try_emplace({grid.height, grid.width, grid.cells}, candidates.size());
    if (is_new) candidates.push_back({.grid = grid});
    auto& candidate = candidates[found->second];
    ++candidate.votes;
    candidate.mean_confidence += confidence;  // the sum until all are counted
  }
  for (auto& each : candidates) each.mean_confidence /= static_cast<double>(each.votes);
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.votes, a.mean_confidence) > std::tie(b.votes, b.mean_confidence);
  });
  return candidates;
}

bool in_first(std::span<const Candidate> ranking, const Grid& right, int64_t k) {
  const auto count = std::min<std::size_t>(ranking.size(), static_cast<std::size_t>(k));
  return std::ranges::any_of(ranking.first(count),
                             [&](const Candidate& each) { return each.grid == right; });
}

double sampled_pass(int64_t predictions, int64_t right, int64_t k) {
  k = std::min(k, predictions);
  if (predictions == 0) return 0;
  if (predictions - right < k) return 1;
  // C(N − c, k) / C(N, k) = Π (i − c)/i over i = N − k + 1 … N.
  double none = 1;
  for (auto i = predictions - k + 1; i <= predictions; ++i)
    none *= static_cast<double>(i - right) / static_cast<double>(i);
  return 1 - none;
}

}  // namespace geores::puzzles
