#include "geores/base/formats/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace geores {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian_word(const std::byte* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | static_cast<uint32_t>(bytes[i]);
  return word;
}

}  // namespace

void Sha256::absorb(const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian_word(block + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const auto a = w[i - 15], b = w[i - 2];
    const auto s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const auto s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const auto first = h + s1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
    const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const auto second = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  const auto waiting = static_cast<std::size_t>(length_ % 64);
  length_ += bytes.size();
  if (waiting > 0) {
    const auto taken = std::min(64 - waiting, bytes.size());
    std::ranges::copy(bytes.first(taken), rest_.begin() + static_cast<std::ptrdiff_t>(waiting));
    bytes = bytes.subspan(taken);
    if (waiting + taken < 64) return *this;
    absorb(rest_.data());
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) absorb(bytes.data());
  std::ranges::copy(bytes, rest_.begin());
  return *this;
}

std::string Sha256::hex() {
  const auto bits = 8 * length_;
  // A one bit, zeros, and the length as 64 bits, so that the last block is full.
  std::vector<std::byte> end(1 + (119 - length_ % 64) % 64 + 8, std::byte{0});
  end.front() = std::byte{0x80};
  for (std::size_t i = 0; i < 8; ++i)
    end[end.size() - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  add(end);
  std::string text;
  for (const auto word : state_) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace geores
