#include "geores/text/utf8.h"

#include <algorithm>

namespace geores {
namespace {

// How long a sequence is that begins with this byte; 0: none does.
size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto length = sequence_length(byte(0));
  if (length == 0 || at + length > text.size()) return {};
  if (length == 1) return {byte(0), 1};
  char32_t value = byte(0) & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!continues(byte(i))) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < smallest[length] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
    return {};
  return {value, length};
}

std::string to_utf8(char32_t value) {
  if (value < 0x80) return {static_cast<char>(value)};
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (value >> shift & 0x3F)); };
  if (value < 0x800) return {static_cast<char>(0xC0 | value >> 6), tail(0)};
  if (value < 0x10000) return {static_cast<char>(0xE0 | value >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | value >> 18), tail(12), tail(6), tail(0)};
}

std::optional<size_t> first_invalid(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto bytes = code_point_at(text, at).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

std::string with_invalid_replaced(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto bytes = code_point_at(text, at).bytes;
    valid += bytes == 0 ? to_utf8(0xFFFD) : std::string(text.substr(at, bytes));
    at += std::max<size_t>(bytes, 1);
  }
  return valid;
}

size_t incomplete_tail(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (continues(byte)) continue;
    return sequence_length(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace geores
