// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace geores {

struct CodePoint {
  char32_t value = 0;
  size_t bytes = 0;  // 0: the bytes there are not UTF-8
};

// The code point that begins at text[at]; at < text.size().
CodePoint code_point_at(std::string_view text, size_t at);

std::string to_utf8(char32_t value);

// The offset of the first byte that is not UTF-8.
std::optional<size_t> first_invalid(std::string_view text);

// Every byte that is not UTF-8 becomes U+FFFD.
std::string with_invalid_replaced(std::string_view text);

// How many bytes at the end begin a sequence that is not complete yet: 0 to 3. A stream of text
// holds them back until the rest comes.
size_t incomplete_tail(std::string_view text);

}  // namespace geores
