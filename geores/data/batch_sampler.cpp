#include "geores/data/batch_sampler.h"

#include "geores/base/error.h"

namespace geores {
namespace {

constexpr uint64_t golden = 0x9E3779B97F4A7C15;

// The output function of SplitMix64: a bijection whose every input bit changes half of the output.
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// One more number into a hash. For a given hash no two numbers give the same result.
uint64_t absorb(uint64_t hash, uint64_t number) { return mix(hash + golden * (number + 1)); }

}  // namespace

BatchSampler::BatchSampler(uint64_t seed, int64_t sequences)
    : seed_(seed), sequences_(static_cast<uint64_t>(sequences)) {
  require(sequences >= 1, "batch_sampler", "sequences must be >= 1, got {}", sequences);
}

std::vector<int64_t> BatchSampler::indices(uint64_t series, int64_t step, int64_t count) const {
  require(step >= 0, "batch_sampler", "step must be >= 0, got {}", step);
  require(count >= 0, "batch_sampler", "count must be >= 0, got {}", count);
  const auto start = absorb(absorb(absorb(0, seed_), series), static_cast<uint64_t>(step));
  const auto surplus = (0 - sequences_) % sequences_;  // 2^64 mod sequences
  std::vector<int64_t> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    auto word = absorb(start, i);
    while (word < surplus) word = mix(word + golden);
    result[i] = static_cast<int64_t>(word % sequences_);
  }
  return result;
}

}  // namespace geores
