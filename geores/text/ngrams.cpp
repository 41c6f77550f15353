#include "geores/text/ngrams.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "geores/base/error.h"

namespace geores {
namespace {

constexpr double kDiscount = 0.75;

// The output function of SplitMix64 as a hash: keys are spread evenly already.
uint64_t mixed(uint64_t hash, uint64_t number) {
  auto z = hash + 0x9E3779B97F4A7C15 * (number + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

struct AsItIs {
  size_t operator()(uint64_t key) const { return key; }
};

struct History {
  uint32_t count = 0, different = 0;
};

// The history of `length` ids before position `at`, as 64 bits: two histories fall together with a
// probability of 1e-7 in a million of them.
uint64_t history_at(std::span<const Id> ids, size_t at, size_t length) {
  uint64_t key = length;
  for (size_t i = at - length; i < at; ++i) key = mixed(key, ids[i]);
  return key;
}

// p ← p_{length + 1} where p holds p_length.
void refine(std::span<const Id> fitted, std::span<const Id> scored, size_t length,
            std::vector<double>& p) {
  std::unordered_map<uint64_t, History, AsItIs> histories;
  std::unordered_map<uint64_t, uint32_t, AsItIs> followed;
  for (size_t i = length; i < scored.size(); ++i) histories[history_at(scored, i, length)];
  for (size_t i = length; i < fitted.size(); ++i) {
    const auto key = history_at(fitted, i, length);
    const auto found = histories.find(key);
    if (found == histories.end()) continue;
    ++found->second.count;
    if (followed[mixed(key, fitted[i])]++ == 0) ++found->second.different;
  }
  for (size_t i = length; i < scored.size(); ++i) {
    const auto key = history_at(scored, i, length);
    const auto& history = histories.at(key);
    if (history.count == 0) continue;
    const auto found = followed.find(mixed(key, scored[i]));
    const double seen = found == followed.end() ? 0 : found->second;
    p[i] = (std::max(seen - kDiscount, 0.0) + kDiscount * history.different * p[i]) / history.count;
  }
}

}  // namespace

std::vector<double> ngram_losses(std::span<const Id> fitted, std::span<const Id> scored,
                                 int64_t vocabulary, int most) {
  require(!scored.empty() && vocabulary >= 1, "ngrams", "there is nothing to score");
  std::vector<double> p(scored.size(), 1.0 / static_cast<double>(vocabulary)), losses;
  for (int n = 0; n <= most; ++n) {
    if (n > 0) refine(fitted, scored, static_cast<size_t>(n - 1), p);
    double sum = 0;
    for (const auto probability : p) sum -= std::log(probability);
    losses.push_back(sum / static_cast<double>(scored.size()));
  }
  return losses;
}

}  // namespace geores
