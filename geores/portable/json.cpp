#include "geores/portable/json.h"

#include "geores/base/printable.h"

namespace geores::portable {

class JsonReader {
 public:
  // `values` and `characters` are large enough for every text of this length.
  JsonReader(std::string_view text, const char* where, Json* values, char* characters)
      : text_(text), where_(where), values_(values), characters_(characters) {}

  void document() {
    read({}, 0);
    skip_spaces();
    expect(at_ == text_.size(), "text after the value");
  }

  // At most this many values are in the text: every one but the first follows one of these.
  static std::size_t most_values(std::string_view text) {
    std::size_t count = 1;
    for (const char c : text) count += c == '[' || c == ',' || c == ':';
    return count;
  }

 private:
  static constexpr int deepest = 32, most_members = 10000;

  void expect(bool condition, const char* what) const {
    refuse_unless(condition, where_, "not valid JSON at byte {}: {}", {at_, what});
  }

  void skip_spaces() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool take_word(const char* text) {
    const std::string_view word = text;
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void read(std::string_view key, int depth) {
    expect(depth < deepest, "nested too deeply");
    skip_spaces();
    expect(at_ < text_.size(), "ends too early");
    Json& value = *new (values_++) Json;
    value.key_ = key;
    const char c = text_[at_];
    if (c == '{') {
      read_object(value, depth);
    } else if (c == '[') {
      read_array(value, depth);
    } else if (c == '"') {
      value.kind_ = Json::Kind::string;
      value.string_ = read_string();
    } else if (take_word("true")) {
      value.kind_ = Json::Kind::boolean;
      value.number_ = 1;
    } else if (take_word("false")) {
      value.kind_ = Json::Kind::boolean;
    } else if (!take_word("null")) {
      value.kind_ = Json::Kind::number;
      value.number_ = read_number();
    }
    value.size_ = static_cast<int>(values_ - &value);
  }

  void read_object(Json& value, int depth) {
    value.kind_ = Json::Kind::object;
    ++at_;
    if (take('}')) return;
    int members = 0;
    do {
      skip_spaces();
      const auto key = read_string();
      value.size_ = static_cast<int>(values_ - &value);
      expect(++members <= most_members, "too many keys");
      expect(value.find(key) == nullptr, "a key is given twice");
      expect(take(':'), "a colon is missing");
      read(key, depth + 1);
    } while (take(','));
    expect(take('}'), "an object does not end");
  }

  void read_array(Json& value, int depth) {
    value.kind_ = Json::Kind::array;
    ++at_;
    if (take(']')) return;
    do read({}, depth + 1);
    while (take(','));
    expect(take(']'), "an array does not end");
  }

  // Digits are added to `value`; returns how many there were.
  int read_digits(double& value) {
    int count = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++count)
      value = 10 * value + (text_[at_] - '0');
    expect(count > 0, "a value is missing");
    return count;
  }

  // Exact up to fifteen digits and powers of 10 up to 22, which is all that a configuration or a
  // header holds; beyond that to a few units in the last place.
  double read_number() {
    const bool negative = text_[at_] == '-';
    if (negative) ++at_;
    double value = 0;
    const auto first = at_;
    const int whole = read_digits(value);
    expect(whole == 1 || text_[first] != '0', "a number begins with 0");
    double power = 0;
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      power = -read_digits(value);
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      const bool down = at_ < text_.size() && text_[at_] == '-';
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      double exponent = 0;
      read_digits(exponent);
      power += down ? -exponent : exponent;
    }
    double scale = 1;
    for (int i = 0; i < 400 && i < (power < 0 ? -power : power); ++i) scale *= 10;
    value = power < 0 ? value / scale : value * scale;
    return negative ? -value : value;
  }

  unsigned read_unit() {  // four hexadecimal digits
    unsigned unit = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      expect(at_ < text_.size(), "a string does not end");
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      expect(digit >= 0, "an escape is not hexadecimal");
      unit = 16 * unit + static_cast<unsigned>(digit);
    }
    return unit;
  }

  void add(unsigned byte) { *characters_++ = static_cast<char>(byte); }

  void add_character(unsigned code) {
    const auto tail = [&](int shift) { add(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      add(code);
    } else if (code < 0x800) {
      add(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      add(0xE0 | (code >> 12));
      tail(6), tail(0);
    } else {
      add(0xF0 | (code >> 18));
      tail(12), tail(6), tail(0);
    }
  }

  void read_escape() {
    expect(at_ < text_.size(), "a string does not end");
    const char c = text_[at_++];
    constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == c) return add(static_cast<unsigned char>(meanings[i]));
    expect(c == 'u', "an unknown escape");
    unsigned code = read_unit();
    if (code >= 0xD800 && code < 0xDC00) {
      expect(take_word("\\u"), "half of a character");
      const unsigned low = read_unit();
      expect(low >= 0xDC00 && low < 0xE000, "half of a character");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    expect(code < 0xDC00 || code >= 0xE000, "half of a character");
    add_character(code);
  }

  // Never longer than its text.
  std::string_view read_string() {
    expect(at_ < text_.size() && text_[at_] == '"', "a string is missing");
    ++at_;
    const char* first = characters_;
    for (;;) {
      expect(at_ < text_.size(), "a string does not end");
      const char c = text_[at_++];
      if (c == '"') break;
      expect(static_cast<unsigned char>(c) >= 0x20, "a control character in a string");
      if (c == '\\') {
        read_escape();
      } else {
        add(static_cast<unsigned char>(c));
      }
    }
    const std::string_view result(first, static_cast<std::size_t>(characters_ - first));
    expect(is_utf8(result), "a string is not UTF-8");
    return result;
  }

  std::string_view text_;
  const char* where_;
  std::size_t at_ = 0;
  Json* values_;
  char* characters_;
};

JsonDocument::JsonDocument(std::string_view text, const char* where) {
  auto* values = static_cast<Json*>(arena_.bytes(JsonReader::most_values(text), sizeof(Json)));
  root_ = values;
  JsonReader(text, where, values, static_cast<char*>(arena_.bytes(text.size(), 1))).document();
}

const Json* Json::find(std::string_view key) const {
  if (kind_ == Kind::object)
    for (const Json& member : *this)
      if (member.key_ == key) return &member;
  return nullptr;
}

}  // namespace geores::portable
