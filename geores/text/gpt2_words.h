// Shared by GPT-2's tokeniser and those learned like it: the pattern that cuts a text into words, and
// the order and the printed form of bytes.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace geores {

constexpr size_t kByteIds = 256;

// The byte of each id below 256: printable ones first.
std::array<unsigned char, kByteIds> byte_order();

// Files of merges are text: printable bytes are written as themselves, the n-th other one as U+0100 + n.
std::string written_bytes(std::string_view bytes);
std::string read_bytes(std::string_view written);  // "" if it is not such a text

// Cuts with OpenAI's pattern. Bytes that are not UTF-8 match nothing. Needs PCRE2.
class WordPattern {
 public:
  WordPattern();
  ~WordPattern();
  WordPattern(const WordPattern&) = delete;
  WordPattern& operator=(const WordPattern&) = delete;

  using Visit = std::function<void(std::string_view)>;
  // Calls word(text) for each match and between(text) for the text between matches.
  void each(std::string_view text, const Visit& word, const Visit& between) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;  // null without PCRE2
};

}  // namespace geores
