#include "geores/portable/refuse.h"

#include <cmath>

#include "geores/base/printable.h"
#if !defined(__wasm__)
#include "geores/base/refusal.h"
#endif

namespace geores::portable {

#if !defined(__wasm__)
void end_with(const char* line) { throw Error(line); }
#endif

// The text of an error, cut at the buffer's end.
class Line {
 public:
  void show(const Shown& value) {
    if (value.kind_ == Shown::Kind::number) return add_number(value.number_);
    if (value.kind_ == Shown::Kind::text) return add(value.text_);
    add("'");
    add_printable(value.text_, length_ + 80);
    add("'");
  }

  void add(std::string_view text) {
    for (const char c : text) add_byte(c);
  }

  const char* text() {
    text_[length_] = '\0';
    return text_;
  }

 private:
  static constexpr int kLongest = 1000;

  void add_byte(char c) {
    if (length_ < kLongest) text_[length_++] = c;
  }

  // As printable() of base/printable.h.
  void add_printable(std::string_view text, int limit) {
    constexpr std::string_view digits = "0123456789abcdef";
    while (!text.empty()) {
      const auto length = utf8_character_length(text);
      const auto byte = static_cast<unsigned char>(text.front());
      char shown[4] = {'\\', byte == '\n' ? 'n' : 't'};
      std::size_t size = 2;
      if (length == 0 || byte < 0x20 || byte == 0x7F) {
        if (byte != '\n' && byte != '\t') {
          shown[1] = 'x';
          shown[2] = digits[byte >> 4];
          shown[3] = digits[byte & 15];
          size = 4;
        }
      } else {
        size = length;
        for (std::size_t i = 0; i < size; ++i) shown[i] = text[i];
      }
      if (length_ + static_cast<int>(size) > limit) return add("...");
      add({shown, size});
      text.remove_prefix(length == 0 ? 1 : length);
    }
  }

  void add_digits(double whole) {
    char digits[24];
    int count = 0;
    do {
      const double rest = std::floor(whole / 10);
      digits[count++] = static_cast<char>('0' + static_cast<int>(whole - 10 * rest));
      whole = rest;
    } while (whole > 0 && count < 24);
    while (count > 0) add_byte(digits[--count]);
  }

  // Whole numbers in full, others to six digits or so.
  void add_number(double value) {
    if (value != value) return add("nan");
    if (value < 0) {
      add("-");
      value = -value;
    }
    if (value - value != 0) return add("inf");
    int exponent = 0;
    if (value != 0 && (value >= 1e15 || value < 1e-4)) {
      for (; value >= 10; value /= 10) ++exponent;
      for (; value < 1; value *= 10) --exponent;
    }
    int decimals = value < 100 ? 5 : 2;
    double scale = 1;
    for (int i = 0; i < decimals; ++i) scale *= 10;
    const bool whole = value == std::floor(value);
    if (!whole) value = std::floor(value * scale + 0.5) / scale;
    add_digits(std::floor(value));
    double rest = std::floor((value - std::floor(value)) * scale + 0.5);
    if (rest > 0) {
      for (; std::floor(rest / 10) * 10 == rest; rest /= 10) --decimals;
      add(".");
      for (scale = 1; decimals > 1; --decimals) scale *= 10;
      for (; scale > rest; scale /= 10) add("0");
      add_digits(rest);
    }
    if (exponent == 0) return;
    add("e");
    add_number(exponent);
  }

  char text_[kLongest + 1];
  int length_ = 0;
};

void refuse(const char* where, const char* text, std::initializer_list<Shown> values) {
  Line line;
  line.add("[");
  line.add(where);
  line.add("] ");
  const Shown* value = values.begin();
  for (; *text != '\0'; ++text)
    if (*text == '{' && value != values.end()) {
      line.show(*value++);
      ++text;
    } else {
      line.add({text, 1});
    }
  end_with(line.text());
}

Name::Name(const char* text) { *this += text; }

Name& Name::operator+=(char more) {
  if (length_ + 1 < static_cast<int>(sizeof text_)) text_[length_++] = more;
  text_[length_] = '\0';
  return *this;
}

Name& Name::operator+=(const char* more) {
  text_[length_] = '\0';
  while (*more != '\0') *this += *more++;
  return *this;
}

Name operator+(const Name& name, const char* more) {
  Name longer = name;
  return longer += more;
}

}  // namespace geores::portable
