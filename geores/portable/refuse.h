// How this folder refuses: as base/refusal.h does, with geores::Error and the same one line, but made
// for a program that is sent to a browser. Call sites only list their values; one function puts
// the line together, without std::string.
//   refuse_unless(rows > 0, "weights", "tensor {} has {} rows", {quoted(name), rows});
//   -> [weights] tensor 'w' has 0 rows
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace geores::portable {

// A value in a message: text, text in quotes (at most 80 bytes of it), or a number.
class Shown {
 public:
  Shown(const char* text) : text_(text) {}
  Shown(std::string_view text, bool in_quotes = false)
      : text_(text), kind_(in_quotes ? Kind::quoted : Kind::text) {}
  template <class T>
  requires std::integral<T> || std::floating_point<T> Shown(T number)
      : number_(static_cast<double>(number)), kind_(Kind::number) {}

 private:
  friend class Line;
  enum class Kind { text, quoted, number };
  std::string_view text_;
  double number_ = 0;
  Kind kind_ = Kind::text;
};

inline Shown quoted(std::string_view text) { return {text, true}; }

[[noreturn]] void refuse(const char* where, const char* text,
                         std::initializer_list<Shown> values = {});

inline void refuse_unless(bool condition, const char* where, const char* text,
                          std::initializer_list<Shown> values = {}) {
  if (!condition) [[unlikely]]
    refuse(where, text, values);
}

// Throws geores::Error; in the browser the page throws (web/wasm/refuse.cpp).
[[noreturn]] void end_with(const char* line);

// A tensor's name, put together without allocating; longer than any tensor's name, it is cut.
class Name {
 public:
  Name(const char* text = "");

  Name& operator+=(const char* more);
  Name& operator+=(char more);
  operator std::string_view() const { return {text_, static_cast<std::size_t>(length_)}; }
  const char* text() const { return text_; }

 private:
  char text_[116];
  int length_ = 0;
};

Name operator+(const Name& name, const char* more);

}  // namespace geores::portable
