// geores::Error, and the way to throw it in code that must not depend on fmt, because it is also
// compiled for the browser (spectral/). All other code uses error.h, which formats with fmt.
//   refuse_unless(depth >= 1, "spectral", "depth must be >= 1, got {}", depth);
//   -> [spectral] depth must be >= 1, got 0
// Each {} is replaced by the next value: text without changes, whole numbers in full, other numbers
// with six digits. The text is a single line of valid UTF-8 even if it quotes a hostile file: it
// can be written to a terminal, a log or a JSON string without changes.
#pragma once

#include <concepts>
#include <cstddef>
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
// As printf's %.6g, to the last digit or so; printf itself would be a third of a small module.
inline std::string shown(std::floating_point auto number) {
  auto value = static_cast<double>(number);
  if (value != value) return "nan";
  if (value < 0) return "-" + shown(-value);
  if (value - value != 0) return "inf";
  if (value == 0) return "0";
  int exponent = 0;
  for (; value >= 999999.5; value /= 10) ++exponent;
  for (; value < 99999.95; value *= 10) --exponent;
  auto digits = std::to_string(static_cast<long long>(value + 0.5));  // six of them
  exponent += 5;                                                      // of the first one
  const bool scientific = exponent < -4 || exponent > 5;
  const int whole = scientific ? 1 : exponent + 1;  // digits before the point
  if (whole <= 0) digits.insert(0, static_cast<std::size_t>(1 - whole), '0');
  const auto point = static_cast<std::size_t>(whole > 0 ? whole : 1);
  while (digits.size() > point && digits.back() == '0') digits.pop_back();
  if (digits.size() > point) digits.insert(point, ".");
  if (!scientific) return digits;
  const auto size = std::to_string(exponent < 0 ? -exponent : exponent);
  return digits + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
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
