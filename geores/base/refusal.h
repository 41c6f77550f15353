// geores::Error, and the way to throw it in code that must not depend on fmt, because it is also
// compiled for the browser (spectral/). All other code uses error.h, which formats with fmt.
//   refuse_unless(depth >= 1, "spectral", "depth must be >= 1, got {}", depth);
//   -> [spectral] depth must be >= 1, got 0
// Each {} is replaced by the next value: text without changes, whole numbers in full, other numbers
// with six digits. The text is a single line of valid UTF-8 even if it quotes a hostile file: it
// can be written to a terminal, a log or a JSON string without changes.
#pragma once

#include <concepts>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "geores/base/printable.h"

namespace geores {

class Error : public std::runtime_error {
 public:
  explicit Error(std::string_view text) : std::runtime_error(printable(text, 8000)) {}
};

namespace detail {

inline std::string shown(std::string_view text) { return std::string(text); }
inline std::string shown(std::integral auto value) { return std::to_string(value); }
inline std::string shown(std::floating_point auto value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.6g", static_cast<double>(value));
  return digits;
}

inline void append_filled(std::string& line, std::string_view text) { line += text; }

template <class First, class... Rest>
void append_filled(std::string& line, std::string_view text, const First& first,
                   const Rest&... rest) {
  const auto hole = text.find("{}");
  line += text.substr(0, hole);
  if (hole == text.npos) return;
  line += shown(first);
  append_filled(line, text.substr(hole + 2), rest...);
}

}  // namespace detail

template <class... Values>
[[noreturn]] void refuse(std::string_view where, std::string_view text, const Values&... values) {
  std::string line = "[" + std::string(where) + "] ";
  detail::append_filled(line, text, values...);
  throw Error(line);
}

template <class... Values>
void refuse_unless(bool condition, std::string_view where, std::string_view text,
                   const Values&... values) {
  if (!condition) refuse(where, text, values...);
}

}  // namespace geores
