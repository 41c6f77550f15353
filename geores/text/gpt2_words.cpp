#include "geores/text/gpt2_words.h"

#ifdef GEORES_HAS_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

#include <unordered_map>

#include "geores/base/error.h"
#include "geores/text/utf8.h"

namespace geores {
namespace {

bool is_printed(unsigned char byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

// The code point that each byte is written as.
std::array<char32_t, kByteIds> written_points() {
  std::array<char32_t, kByteIds> points{};
  char32_t other = 0x100;
  for (const auto byte : byte_order()) points[byte] = is_printed(byte) ? char32_t{byte} : other++;
  return points;
}

}  // namespace

std::array<unsigned char, kByteIds> byte_order() {
  std::array<unsigned char, kByteIds> order{};
  size_t next = 0;
  for (const bool printed : {true, false})
    for (size_t byte = 0; byte < kByteIds; ++byte)
      if (is_printed(static_cast<unsigned char>(byte)) == printed)
        order[next++] = static_cast<unsigned char>(byte);
  return order;
}

std::string written_bytes(std::string_view bytes) {
  static const auto points = written_points();
  std::string written;
  for (const auto byte : bytes) written += to_utf8(points[static_cast<unsigned char>(byte)]);
  return written;
}

std::string read_bytes(std::string_view written) {
  static const auto bytes_of_points = [] {
    std::unordered_map<char32_t, char> all;
    const auto points = written_points();
    for (size_t byte = 0; byte < kByteIds; ++byte) all[points[byte]] = static_cast<char>(byte);
    return all;
  }();
  std::string bytes;
  for (size_t at = 0; at < written.size();) {
    const auto point = code_point_at(written, at);
    const auto found = point.bytes == 0 ? bytes_of_points.end() : bytes_of_points.find(point.value);
    if (found == bytes_of_points.end()) return "";
    bytes += found->second;
    at += point.bytes;
  }
  return bytes;
}

#ifdef GEORES_HAS_PCRE2

struct WordPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;

  ~Compiled() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

WordPattern::WordPattern() : compiled_(std::make_unique<Compiled>()) {
  constexpr const char* pattern =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr);
  require(compiled_->code != nullptr, "gpt2", "PCRE2 refuses the pattern: error {} at {}", error,
          at);
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);  // slower without, and the same
  compiled_->match = pcre2_match_data_create_from_pattern(compiled_->code, nullptr);
}

void WordPattern::each(std::string_view text, const Visit& word, const Visit& between) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t at = 0;
  while (at < text.size()) {
    const auto found =
        pcre2_match(compiled_->code, subject, text.size(), at, 0, compiled_->match, nullptr);
    require(found > 0 || found == PCRE2_ERROR_NOMATCH, "gpt2",
            "PCRE2 cannot match at byte {}: error {}", at, found);
    if (found == PCRE2_ERROR_NOMATCH) break;
    const auto* ends = pcre2_get_ovector_pointer(compiled_->match);
    between(text.substr(at, ends[0] - at));
    word(text.substr(ends[0], ends[1] - ends[0]));
    at = ends[1];
  }
  between(text.substr(at));
}

#else

struct WordPattern::Compiled {};

WordPattern::WordPattern() = default;

void WordPattern::each(std::string_view text, const Visit&, const Visit&) const {
  fail("gpt2",
       "to encode {} bytes needs PCRE2, which this program was built without: install "
       "libpcre2-dev and build again",
       text.size());
}

#endif

WordPattern::~WordPattern() = default;

}  // namespace geores
