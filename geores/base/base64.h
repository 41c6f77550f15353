// Bytes as text (RFC 4648): base64(to_bytes("ab")) -> "YWI=".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace geores {

inline std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto left = bytes.size() - i;
    const auto at = [&](std::size_t k) {
      return k < left ? static_cast<unsigned>(bytes[i + k]) : 0u;
    };
    const unsigned three = at(0) << 16 | at(1) << 8 | at(2);
    text += letters[three >> 18];
    text += letters[three >> 12 & 63];
    text += left > 1 ? letters[three >> 6 & 63] : '=';
    text += left > 2 ? letters[three & 63] : '=';
  }
  return text;
}

}  // namespace geores
