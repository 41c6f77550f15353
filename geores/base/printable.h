// Makes foreign bytes (file names, tensor names, option values) fit for an error line.
//   printable("a\nb\xff")  ->  a\nb\xff     one line of valid UTF-8 for any input
//   quote("weight")       ->  'weight'     the same, in quotes and at most 80 bytes long
// Backslashes stay as they are, so applying printable() twice changes nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace geores {

inline std::string hexadecimal_escape(unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

// The number of bytes of the UTF-8 character at the start of text (1 to 4); 0 if there is none.
// Overlong forms, surrogates and code points above U+10FFFF do not count as characters.
inline std::size_t utf8_character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto length = utf8_character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Control characters and invalid bytes become \n, \t or \xNN; text beyond the limit becomes "...".
inline std::string printable(std::string_view text, std::size_t limit) {
  std::string line;
  while (!text.empty()) {
    const auto length = utf8_character_length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    const auto character = text.substr(0, length == 0 ? 1 : length);
    const std::string shown = byte == '\n'   ? "\\n"
                              : byte == '\t' ? "\\t"
                              : length == 0 || byte < 0x20 || byte == 0x7F
                                  ? hexadecimal_escape(byte)
                                  : std::string(character);
    if (line.size() + shown.size() > limit) return line + "...";
    line += shown;
    text.remove_prefix(character.size());
  }
  return line;
}

inline std::string quote(std::string_view text) { return "'" + printable(text, 80) + "'"; }

}  // namespace geores
