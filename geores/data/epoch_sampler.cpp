#include "geores/data/epoch_sampler.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {
namespace {

uint64_t keyed(uint64_t hash, uint64_t number) {  // SplitMix64 (Steele, Lea and Flood, 2014)
  auto z = hash + 0x9E3779B97F4A7C15 * (number + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// A permutation of 0 .. size − 1.
uint64_t permuted(uint64_t key, uint64_t number, uint64_t size) {
  int half = 1;
  while ((uint64_t{1} << (2 * half)) < size) ++half;
  const auto mask = (uint64_t{1} << half) - 1;
  do {
    auto left = number >> half, right = number & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const auto next = left ^ (keyed(keyed(key, round), right) & mask);
      left = right, right = next;
    }
    number = left << half | right;
  } while (number >= size);
  return number;
}

}  // namespace

EpochSampler::EpochSampler(uint64_t seed, int64_t ids, int64_t length)
    : seed_(seed), length_(length) {
  require(length >= 1 && ids > length, "epoch_sampler", "{} ids have no window of {} and a target",
          ids, length);
  windows_ = std::max<int64_t>(1, (ids - length) / length);
  phases_ = std::min(length, ids - windows_ * length);
}

int64_t EpochSampler::offset(int64_t number) const {
  const auto epoch = keyed(keyed(0, seed_), static_cast<uint64_t>(number / windows_));
  const auto phase = keyed(epoch, 0) % static_cast<uint64_t>(phases_);
  const auto window = permuted(keyed(epoch, 1), static_cast<uint64_t>(number % windows_),
                               static_cast<uint64_t>(windows_));
  return static_cast<int64_t>(phase) + static_cast<int64_t>(window) * length_;
}

std::vector<int64_t> EpochSampler::offsets(int64_t step, int64_t count) const {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(offset(step * count + i));
  return result;
}

}  // namespace geores
