#include "geores/text/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "geores/base/error.h"

namespace geores {
namespace {

uint64_t absorbed(uint64_t hash, uint64_t number) {  // SplitMix64 (Steele, Lea and Flood, 2014)
  auto z = hash + 0x9E3779B97F4A7C15 * (number + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

void SamplingOptions::check() const {
  require(std::isfinite(temperature) && temperature >= 0, "generate",
          "temperature must be >= 0, got {}", temperature);
  require(top_k >= 0, "generate", "top-k must be >= 1, got {}", top_k);
  require(top_p > 0 && top_p <= 1, "generate", "top-p must be in (0, 1], got {}", top_p);
  // Smaller ones make infinities of logits.
  require(std::isfinite(repetition_penalty) && repetition_penalty >= 1e-3, "generate",
          "repetition-penalty must be at least 0.001, got {}", repetition_penalty);
}

double uniform_number(uint64_t seed, uint64_t sample, uint64_t position) {
  const auto word = absorbed(absorbed(absorbed(0, seed), sample), position);
  return static_cast<double>(word >> 11) * 0x1p-53;
}

Chosen choose(std::span<const double> logits, std::span<const Id> history,
              const SamplingOptions& options, uint64_t sample, uint64_t position) {
  std::vector<double> scores(logits.begin(), logits.end());
  require(std::ranges::all_of(scores, [](double score) { return std::isfinite(score); }),
          "generate", "the model gives a logit that is not a finite number at position {}",
          position);
  if (options.repetition_penalty != 1)
    for (const auto id : std::set<Id>(history.begin(), history.end()))
      scores[id] *= scores[id] > 0 ? 1 / options.repetition_penalty : options.repetition_penalty;

  // Most likely first; of equal ones the smaller id.
  std::vector<Id> order(scores.size());
  std::iota(order.begin(), order.end(), Id{0});
  const auto likelier = [&](Id a, Id b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  auto kept = order.size();
  if (options.top_k > 0) kept = std::min(kept, static_cast<size_t>(options.top_k));
  if (options.temperature == 0) kept = 1;
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(),
                    likelier);
  order.resize(kept);

  const auto temperature = options.temperature == 0 ? 1.0 : options.temperature;
  std::vector<double> mass(kept);
  const auto total_of = [&] { return std::accumulate(mass.begin(), mass.end(), 0.0); };
  for (size_t i = 0; i < kept; ++i)
    mass[i] = std::exp((scores[order[i]] - scores[order[0]]) / temperature);
  auto total = total_of();
  if (options.top_p < 1) {
    double sum = 0;
    size_t count = 0;
    while (count < kept && sum < options.top_p * total) sum += mass[count++];
    mass.resize(std::max<size_t>(count, 1));
    total = total_of();
  }
  auto rest = uniform_number(static_cast<uint64_t>(options.seed), sample, position) * total;
  size_t chosen = 0;
  while (chosen + 1 < mass.size() && rest >= mass[chosen]) rest -= mass[chosen++];
  return {.id = order[chosen], .log_probability = std::log(mass[chosen] / total)};
}

}  // namespace geores
