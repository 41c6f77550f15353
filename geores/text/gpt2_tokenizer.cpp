// GPT-2's byte-level BPE (Radford et al., 2019). A pattern cuts the text into words; within a word
// the pair of neighbours with the first merge in the list is joined, repeatedly. The list
// is OpenAI's (gpt2) or learned from a text (bpe).
#include <algorithm>
#include <array>
#include <queue>
#include <unordered_map>

#include "geores/base/error.h"
#include "geores/text/gpt2_words.h"
#include "geores/text/tokenizer.h"

namespace geores {
namespace {

constexpr size_t kMostRememberedWords = 1 << 20;

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

class Gpt2Tokenizer final : public Tokenizer {
 public:
  Gpt2Tokenizer(std::string type, std::vector<std::string> lines, const std::string& where)
      : type_(std::move(type)), lines_(std::move(lines)) {
    const auto order = byte_order();
    std::unordered_map<std::string, Id> ids;  // of pieces
    for (size_t id = 0; id < kByteIds; ++id) {
      pieces_.emplace_back(1, static_cast<char>(order[id]));
      id_of_byte_[order[id]] = static_cast<Id>(id);
      ids[pieces_.back()] = static_cast<Id>(id);
    }
    for (size_t i = 0; i < lines_.size(); ++i) {
      const auto space = lines_[i].find(' ');
      const auto left = space == std::string::npos ? "" : read_bytes(lines_[i].substr(0, space)),
                 right = space == std::string::npos ? "" : read_bytes(lines_[i].substr(space + 1));
      require(ids.contains(left) && ids.contains(right), where,
              "merge {} is not two pieces that came before it", i + 1);
      const auto id = static_cast<Id>(pieces_.size());
      merges_.emplace(pair_of(ids[left], ids[right]), id);
      pieces_.push_back(left + right);
      ids.emplace(pieces_.back(), id);
    }
    pieces_.emplace_back(kEndOfText);
  }

  std::string name() const override { return type_; }

  Ids encode(std::string_view text, const std::string&) const override {
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
  }

  std::string_view piece(Id id) const override { return pieces_[id]; }
  int64_t vocabulary() const override { return static_cast<int64_t>(pieces_.size()); }
  std::optional<Id> end_of_text() const override { return static_cast<Id>(pieces_.size() - 1); }
  bool needs_utf8() const override { return false; }

 private:
  const Ids& ids_of_word(std::string_view word) const {
    const auto key = std::string(word);
    if (const auto found = remembered_.find(key); found != remembered_.end()) return found->second;
    if (remembered_.size() >= kMostRememberedWords) remembered_.clear();
    Ids symbols;
    for (const auto byte : word) symbols.push_back(id_of_byte_[static_cast<unsigned char>(byte)]);
    return remembered_[key] = Joining(merges_, std::move(symbols)).run();
  }

  WordPattern words_;
  mutable std::unordered_map<std::string, Ids> remembered_;

  nlohmann::json to_json() const override { return {{"type", type_}, {"merges", lines_}}; }

  std::string type_;
  std::vector<std::string> lines_;
  std::vector<std::string> pieces_;
  std::array<Id, kByteIds> id_of_byte_{};
  std::unordered_map<uint32_t, Id> merges_;
};

}  // namespace

std::shared_ptr<Tokenizer> merging_tokenizer(const std::string& type,
                                             std::vector<std::string> merges,
                                             const std::string& where) {
  require(!merges.empty(), where, "holds no merges");
  require(static_cast<int64_t>(merges.size() + kByteIds + 1) <= kMostIds, where,
          "{} merges are more than {} ids", merges.size(), kMostIds);
  return std::make_shared<Gpt2Tokenizer>(type, std::move(merges), where);
}

std::shared_ptr<Tokenizer> gpt2_tokenizer(std::string_view merges, const std::string& where) {
  std::vector<std::string> lines;
  while (!merges.empty()) {
    const auto end = std::min(merges.find('\n'), merges.size());
    const auto line = merges.substr(0, end);
    if (!line.empty() && !line.starts_with("#version")) lines.emplace_back(line);
    merges.remove_prefix(std::min(end + 1, merges.size()));
  }
  return merging_tokenizer("gpt2", std::move(lines), where);
}

std::shared_ptr<Tokenizer> merging_tokenizer_from(const nlohmann::json& object,
                                                  const std::string& where) {
  require(object.contains("merges") && object["merges"].is_array(), where, "has no 'merges'");
  std::vector<std::string> lines;
  for (const auto& line : object["merges"]) {
    require(line.is_string(), where, "a merge must be text, got {}", line.dump());
    lines.push_back(line.get<std::string>());
  }
  return merging_tokenizer(object["type"].get<std::string>(), std::move(lines), where);
}

}  // namespace geores
