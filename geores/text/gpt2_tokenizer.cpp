// GPT-2's byte-level BPE (Radford et al., 2019). A pattern cuts the text into words; within a word
// the pair of neighbours that stands first in the list of merges is joined, again and again.
#ifdef GEORES_HAS_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

#include <algorithm>
#include <array>
#include <queue>
#include <unordered_map>

#include "geores/base/error.h"
#include "geores/text/tokenizer.h"
#include "geores/text/utf8.h"

namespace geores {
namespace {

constexpr size_t kBytes = 256;
constexpr size_t kMostRememberedWords = 1 << 20;

// The byte of each id below 256: printable ones first.
std::array<unsigned char, kBytes> byte_order() {
  std::array<unsigned char, kBytes> order{};
  std::array<bool, kBytes> printable{};
  size_t next = 0;
  const auto add_printable = [&](int from, int to) {
    for (int byte = from; byte <= to; ++byte) {
      printable[static_cast<size_t>(byte)] = true;
      order[next++] = static_cast<unsigned char>(byte);
    }
  };
  add_printable('!', '~');
  add_printable(0xA1, 0xAC);
  add_printable(0xAE, 0xFF);
  for (size_t byte = 0; byte < kBytes; ++byte)
    if (!printable[byte]) order[next++] = static_cast<unsigned char>(byte);
  return order;
}

// The file of merges is text: printable bytes stand for themselves, the n-th other one for
// U+0100 + n.
std::unordered_map<char32_t, Id> ids_of_written_bytes() {
  const auto order = byte_order();
  std::unordered_map<char32_t, Id> ids;
  char32_t other = 0x100;
  for (size_t id = 0; id < kBytes; ++id) {
    const auto byte = order[id];
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    ids[printable ? char32_t{byte} : other++] = static_cast<Id>(id);
  }
  return ids;
}

uint32_t pair_of(Id left, Id right) { return uint32_t{left} << 16 | right; }

// Joins neighbours in the order of their merges until no pair has one. The positions of a word are
// a linked list, the pairs that could be joined a heap: O(n log n) for a word of n bytes.
class Joining {
 public:
  Joining(const std::unordered_map<uint32_t, Id>& merges, Ids symbols)
      : merges_(merges), symbols_(std::move(symbols)) {
    const auto n = static_cast<int>(symbols_.size());
    for (int i = 0; i < n; ++i) {
      before_.push_back(i - 1);
      after_.push_back(i + 1 < n ? i + 1 : -1);
    }
    for (int i = 0; i + 1 < n; ++i) offer(i);
  }

  Ids run() {
    std::vector<bool> gone(symbols_.size());
    while (!offers_.empty()) {
      const auto [joined, left, pair] = offers_.top();
      offers_.pop();
      if (gone[static_cast<size_t>(left)] || pair_at(left) != pair) continue;  // changed since
      const auto right = after_[static_cast<size_t>(left)];
      symbols_[static_cast<size_t>(left)] = joined;
      gone[static_cast<size_t>(right)] = true;
      const auto next = after_[static_cast<size_t>(right)];
      after_[static_cast<size_t>(left)] = next;
      if (next >= 0) before_[static_cast<size_t>(next)] = left, offer(left);
      if (const auto previous = before_[static_cast<size_t>(left)]; previous >= 0) offer(previous);
    }
    Ids ids;
    for (int i = 0; i >= 0; i = after_[static_cast<size_t>(i)])
      ids.push_back(symbols_[static_cast<size_t>(i)]);
    return ids;
  }

 private:
  struct Offer {
    Id joined;  // its merge: the smaller, the earlier
    int left;
    uint32_t pair;
    bool operator<(const Offer& other) const {
      return joined != other.joined ? joined > other.joined : left > other.left;
    }
  };

  uint32_t pair_at(int left) const {
    const auto right = after_[static_cast<size_t>(left)];
    if (right < 0) return 0xFFFFFFFF;  // no merge has this pair
    return pair_of(symbols_[static_cast<size_t>(left)], symbols_[static_cast<size_t>(right)]);
  }
  void offer(int left) {
    const auto pair = pair_at(left);
    if (const auto found = merges_.find(pair); found != merges_.end())
      offers_.push({found->second, left, pair});
  }

  const std::unordered_map<uint32_t, Id>& merges_;
  Ids symbols_;
  std::vector<int> before_, after_;
  std::priority_queue<Offer> offers_;
};

#ifdef GEORES_HAS_PCRE2
// OpenAI's pattern. Bytes that are not UTF-8 match nothing.
class Words {
 public:
  Words() {
    constexpr const char* pattern =
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr);
    require(code_ != nullptr, "gpt2", "PCRE2 refuses the pattern: error {} at {}", error, at);
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // slower without, and the same
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Words() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  // Calls word(text) for each match and between(text) for what lies between them.
  template <class Word, class Between>
  void each(std::string_view text, Word&& word, Between&& between) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t at = 0;
    while (at < text.size()) {
      const auto found = pcre2_match(code_, subject, text.size(), at, 0, match_, nullptr);
      require(found > 0 || found == PCRE2_ERROR_NOMATCH, "gpt2",
              "PCRE2 cannot match at byte {}: error {}", at, found);
      if (found == PCRE2_ERROR_NOMATCH) break;
      const auto* ends = pcre2_get_ovector_pointer(match_);
      between(text.substr(at, ends[0] - at));
      word(text.substr(ends[0], ends[1] - ends[0]));
      at = ends[1];
    }
    between(text.substr(at));
  }

 private:
  pcre2_code* code_ = nullptr;
  pcre2_match_data* match_ = nullptr;
};
#endif

class Gpt2Tokenizer final : public Tokenizer {
 public:
  Gpt2Tokenizer(std::vector<std::string> lines, const std::string& where)
      : lines_(std::move(lines)) {
    const auto order = byte_order();
    std::unordered_map<std::string, Id> ids;  // of pieces
    for (size_t id = 0; id < kBytes; ++id) {
      pieces_.emplace_back(1, static_cast<char>(order[id]));
      id_of_byte_[order[id]] = static_cast<Id>(id);
      ids[pieces_.back()] = static_cast<Id>(id);
    }
    for (size_t i = 0; i < lines_.size(); ++i) {
      const auto space = lines_[i].find(' ');
      const auto left = space == std::string::npos ? "" : bytes_of(lines_[i].substr(0, space)),
                 right = space == std::string::npos ? "" : bytes_of(lines_[i].substr(space + 1));
      require(ids.contains(left) && ids.contains(right), where,
              "merge {} is not two pieces that came before it", i + 1);
      const auto id = static_cast<Id>(pieces_.size());
      merges_.emplace(pair_of(ids[left], ids[right]), id);
      pieces_.push_back(left + right);
      ids.emplace(pieces_.back(), id);
    }
    pieces_.emplace_back(kEndOfText);
  }

  std::string name() const override { return "gpt2"; }

  Ids encode(std::string_view text, const std::string&) const override {
#ifdef GEORES_HAS_PCRE2
    Ids ids;
    ids.reserve(text.size() / 3);
    words_.each(
        text,
        [&](std::string_view word) {
          const auto& known = ids_of_word(word);
          ids.insert(ids.end(), known.begin(), known.end());
        },
        [&](std::string_view rest) {
          for (const auto byte : rest) ids.push_back(id_of_byte_[static_cast<unsigned char>(byte)]);
        });
    return ids;
#else
    fail("gpt2",
         "to encode {} bytes needs PCRE2, which this program was built without: install "
         "libpcre2-dev and build again",
         text.size());
#endif
  }

  std::string_view piece(Id id) const override { return pieces_[id]; }
  int64_t vocabulary() const override { return static_cast<int64_t>(pieces_.size()); }
  std::optional<Id> end_of_text() const override { return static_cast<Id>(pieces_.size() - 1); }
  bool needs_utf8() const override { return false; }

 private:
  static std::string bytes_of(const std::string& written) {
    static const auto ids = ids_of_written_bytes();
    static const auto order = byte_order();
    std::string bytes;
    for (size_t at = 0; at < written.size();) {
      const auto point = code_point_at(written, at);
      const auto found = point.bytes == 0 ? ids.end() : ids.find(point.value);
      if (found == ids.end()) return "";
      bytes += static_cast<char>(order[found->second]);
      at += point.bytes;
    }
    return bytes;
  }

#ifdef GEORES_HAS_PCRE2
  const Ids& ids_of_word(std::string_view word) const {
    const auto key = std::string(word);
    if (const auto found = remembered_.find(key); found != remembered_.end()) return found->second;
    if (remembered_.size() >= kMostRememberedWords) remembered_.clear();
    Ids symbols;
    for (const auto byte : word) symbols.push_back(id_of_byte_[static_cast<unsigned char>(byte)]);
    return remembered_[key] = Joining(merges_, std::move(symbols)).run();
  }

  Words words_;
  mutable std::unordered_map<std::string, Ids> remembered_;
#endif

  nlohmann::json to_json() const override { return {{"type", "gpt2"}, {"merges", lines_}}; }

  std::vector<std::string> lines_;
  std::vector<std::string> pieces_;
  std::array<Id, kBytes> id_of_byte_{};
  std::unordered_map<uint32_t, Id> merges_;
};

}  // namespace

std::shared_ptr<Tokenizer> gpt2_tokenizer(std::string_view merges, const std::string& where) {
  std::vector<std::string> lines;
  while (!merges.empty()) {
    const auto end = std::min(merges.find('\n'), merges.size());
    const auto line = merges.substr(0, end);
    if (!line.empty() && !line.starts_with("#version")) lines.emplace_back(line);
    merges.remove_prefix(std::min(end + 1, merges.size()));
  }
  require(!lines.empty(), where, "holds no merges");
  require(static_cast<int64_t>(lines.size() + kBytes + 1) <= kMostIds, where,
          "{} merges are more than {} ids", lines.size(), kMostIds);
  return std::make_shared<Gpt2Tokenizer>(std::move(lines), where);
}

std::shared_ptr<Tokenizer> gpt2_tokenizer_from(const nlohmann::json& object,
                                               const std::string& where) {
  require(object.contains("merges") && object["merges"].is_array(), where, "has no 'merges'");
  std::string text;
  for (const auto& line : object["merges"]) {
    require(line.is_string(), where, "a merge must be text, got {}", line.dump());
    text += line.get<std::string>() + "\n";
  }
  return gpt2_tokenizer(text, where);
}

}  // namespace geores
