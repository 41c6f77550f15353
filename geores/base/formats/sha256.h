// SHA-256 (FIPS 180-4), the name of data: grids, puzzles and files are compared by it.
//   sha256("abc")  ->  ba7816bf 8f01cfea ... (64 lower-case hexadecimal digits)
//   Sha256 sum;  sum.add(header).add(data);  sum.hex();
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace geores {

class Sha256 {
 public:
  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

  // Of all that was added; ends the sum.
  std::string hex();

 private:
  void absorb(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};  // the bytes of a block that is not full yet
  uint64_t length_ = 0;               // in bytes
};

inline std::string sha256(std::string_view text) { return Sha256().add(text).hex(); }

}  // namespace geores
