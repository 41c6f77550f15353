// SHA-256 (FIPS 180-4), to tell whether a file is the one that was meant.
//   sha256(text)   -> 64 hexadecimal digits
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
  void add(std::string_view bytes);
  void add(std::span<const std::byte> bytes) {
    add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  std::string hex();  // ends the message: nothing may be added afterwards

 private:
  void add_block(const unsigned char* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string pending_;  // less than a block
  uint64_t length_ = 0;
};

std::string sha256(std::string_view bytes);

}  // namespace geores
