#include "geores/base/formats/numpy_generator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "geores/base/error.h"

namespace geores {
namespace {

// SeedSequence(seed).generate_state(4, uint64): the seed is hashed into a pool of four words,
// which are mixed with each other and hashed again.
std::array<uint64_t, 4> seed_words(uint32_t seed) {
  uint32_t constant = 0x43b0d7e5;
  const auto hashed = [&](uint32_t value) {
    value ^= constant;
    constant *= 0x931e8875;
    value *= constant;
    return value ^ (value >> 16);
  };
  const auto mixed = [](uint32_t x, uint32_t y) {
    const uint32_t value = 0xca01f9dd * x - 0x4973f715 * y;
    return value ^ (value >> 16);
  };
  std::array<uint32_t, 4> pool{};
  for (std::size_t i = 0; i < 4; ++i) pool[i] = hashed(i == 0 ? seed : 0);
  for (std::size_t from = 0; from < 4; ++from)
    for (std::size_t to = 0; to < 4; ++to)
      if (from != to) pool[to] = mixed(pool[to], hashed(pool[from]));

  uint32_t output_constant = 0x8b51f9dd;
  std::array<uint64_t, 4> words{};
  for (std::size_t i = 0; i < 8; ++i) {
    auto value = pool[i % 4] ^ output_constant;
    output_constant *= 0x58f38ded;
    value *= output_constant;
    value ^= value >> 16;
    words[i / 2] |= static_cast<uint64_t>(value) << (32 * (i % 2));
  }
  return words;
}

}  // namespace

NumpyGenerator::NumpyGenerator(uint32_t seed) {
  const auto words = seed_words(seed);
  const auto start = static_cast<Wide>(words[0]) << 64 | words[1];
  increment_ = (static_cast<Wide>(words[2]) << 64 | words[3]) << 1 | 1;
  step();
  state_ += start;
  step();
}

void NumpyGenerator::step() {
  constexpr auto multiplier = static_cast<Wide>(0x2360ed051fc65da4) << 64 | 0x4385df649fccf645;
  state_ = state_ * multiplier + increment_;
}

uint64_t NumpyGenerator::word() {
  step();
  const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

uint32_t NumpyGenerator::half_word() {
  if (waiting_) return *std::exchange(waiting_, std::nullopt);
  const auto both = word();
  waiting_ = static_cast<uint32_t>(both >> 32);
  return static_cast<uint32_t>(both);
}

uint32_t NumpyGenerator::up_to(uint32_t last) {
  if (last == 0) return 0;
  const auto count = last + 1;  // 0: all 2^32
  if (count == 0) return half_word();
  auto product = static_cast<uint64_t>(half_word()) * count;
  if (static_cast<uint32_t>(product) < count) {
    const auto threshold = (UINT32_MAX - last) % count;
    while (static_cast<uint32_t>(product) < threshold)
      product = static_cast<uint64_t>(half_word()) * count;
  }
  return static_cast<uint32_t>(product >> 32);
}

std::vector<int64_t> NumpyGenerator::choice(int64_t population, int64_t count) {
  require(population >= 1 && population <= 10000 && count >= 0 && count <= population,
          "numpy_generator", "cannot choose {} of {}; the population must be 1 to 10000", count,
          population);
  std::vector<int64_t> chosen;
  for (auto last = population - count; last < population; ++last) {
    const int64_t drawn = up_to(static_cast<uint32_t>(last));
    chosen.push_back(std::ranges::find(chosen, drawn) == chosen.end() ? drawn : last);
  }
  for (auto i = count - 1; i > 0; --i)
    std::swap(chosen[static_cast<std::size_t>(i)], chosen[up_to(static_cast<uint32_t>(i))]);
  return chosen;
}

}  // namespace geores
