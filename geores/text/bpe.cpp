#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "geores/base/error.h"
#include "geores/text/gpt2_words.h"
#include "geores/text/tokenizer.h"

namespace geores {
namespace {

using Pair = uint32_t;  // two ids

Pair neighbours(Id left, Id right) { return Pair{left} << 16 | right; }

// Every different word of a text as ids, with how often it occurs. How often two ids are side by
// side is kept up to date while pairs become pieces, so that a piece costs the words it occurs in and
// not the text.
class Learning {
 public:
  Learning(const std::unordered_map<std::string, int64_t>& words,
           const std::unordered_map<unsigned char, Id>& id_of_byte) {
    for (const auto& [word, count] : words) {
      Ids ids;
      for (const auto byte : word) ids.push_back(id_of_byte.at(static_cast<unsigned char>(byte)));
      words_.push_back({std::move(ids), count});
    }
    std::unordered_set<Pair> all;
    for (size_t i = 0; i < words_.size(); ++i) count(i, +1, all);
    offer(all);
  }

  // The most frequent pair; of equals the one with the smaller ids. False: no two ids are left side
  // by side.
  bool best(Pair& pair) {
    while (!offers_.empty()) {
      const auto top = offers_.top();
      if (counts_.at(top.pair) == top.count && top.count > 0) {
        pair = top.pair;
        return true;
      }
      offers_.pop();  // counted anew since
    }
    return false;
  }

  void join(Pair pair, Id joined) {
    const auto left = static_cast<Id>(pair >> 16), right = static_cast<Id>(pair & 0xFFFF);
    std::unordered_set<Pair> changed;
    const auto words = std::move(words_with_[pair]);
    for (const auto i : words) {
      auto& ids = words_[i].ids;
      count(i, -1, changed);
      size_t end = 0;
      for (size_t at = 0; at < ids.size(); ++at) {
        const bool here = at + 1 < ids.size() && ids[at] == left && ids[at + 1] == right;
        ids[end++] = here ? joined : ids[at];
        if (here) ++at;
      }
      ids.resize(end);
      count(i, +1, changed);
    }
    offer(changed);
  }

 private:
  struct Word {
    Ids ids;
    int64_t count;
  };
  struct Offer {
    int64_t count;
    Pair pair;
    bool operator<(const Offer& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  // Adds the pairs of a word to the counts, or takes them away.
  void count(size_t i, int sign, std::unordered_set<Pair>& changed) {
    const auto& [ids, times] = words_[i];
    for (size_t at = 0; at + 1 < ids.size(); ++at) {
      const auto pair = neighbours(ids[at], ids[at + 1]);
      counts_[pair] += sign * times;
      changed.insert(pair);
      if (sign > 0) words_with_[pair].insert(i);
    }
  }

  void offer(const std::unordered_set<Pair>& pairs) {
    for (const auto pair : pairs) offers_.push({counts_[pair], pair});
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t> counts_;
  std::unordered_map<Pair, std::unordered_set<size_t>> words_with_;  // and some that had it once
  std::priority_queue<Offer> offers_;
};

}  // namespace

std::shared_ptr<Tokenizer> train_bpe(std::string_view text, int64_t vocabulary,
                                     const std::string& where) {
  const auto least = static_cast<int64_t>(kByteIds) + 2;
  require(vocabulary >= least && vocabulary <= kMostIds, "bpe",
          "--vocabulary must be in {}..{}: 256 bytes, end of text and pieces; got {}", least,
          kMostIds, vocabulary);
  std::unordered_map<std::string, int64_t> words;
  WordPattern().each(
      text, [&](std::string_view word) { ++words[std::string(word)]; }, [](std::string_view) {});
  std::vector<std::string> pieces;
  std::unordered_map<unsigned char, Id> id_of_byte;
  for (const auto byte : byte_order()) {
    id_of_byte[byte] = static_cast<Id>(pieces.size());
    pieces.emplace_back(1, static_cast<char>(byte));
  }
  Learning learning(words, id_of_byte);
  std::vector<std::string> merges;
  for (Pair pair = 0; static_cast<int64_t>(pieces.size()) + 1 < vocabulary;) {
    require(learning.best(pair), where,
            "gives only {} different pieces; ask for a --vocabulary of at most {}", pieces.size(),
            pieces.size() + 1);
    const auto left = pieces[pair >> 16], right = pieces[pair & 0xFFFF];
    merges.push_back(written_bytes(left) + " " + written_bytes(right));
    learning.join(pair, static_cast<Id>(pieces.size()));
    pieces.push_back(left + right);
  }
  return merging_tokenizer("bpe", std::move(merges), where);
}

}  // namespace geores
