// Text as numbers and back. A tokeniser is written to and read from a folder (tokenizer.json; for
// SentencePiece also tokenizer.model), and two tokenisers are the same if these are.
//   bytes          id = byte, 256 = end of text; any file
//   chars          the code points of one text, sorted, as nanoGPT's shakespeare_char; no end of
//                  text; a character that was not seen is refused
//   gpt2           byte-level BPE from OpenAI's merges: ids 0–255 the bytes, printable ones first,
//                  then the merges in their order, 50256 = end of text; any file. To encode needs
//                  PCRE2
//   bpe            the same with merges learned from a text: N ids, the last one the end of text
//   sentencepiece  N pieces learned from a text, with single bytes for characters that they do not cover; to
//                  encode needs the library, to decode does not
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace geores {

using Id = uint16_t;
using Ids = std::vector<Id>;
constexpr int64_t kMostIds = 65536;

// The decoded form of an end of text.
constexpr std::string_view kEndOfText = "<|endoftext|>";

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string name() const = 0;

  // Never gives the end of text. Throws for text that it cannot encode, with the byte offset; `where` names
  // the text in that message. Not for several threads at once: words are remembered.
  virtual Ids encode(std::string_view text, const std::string& where) const = 0;

  // The bytes of one id.
  virtual std::string_view piece(Id id) const = 0;
  virtual int64_t vocabulary() const = 0;
  virtual std::optional<Id> end_of_text() const = 0;

  // The id before the first one of a text: end of text, for `chars` a line end, else 0.
  Id before_first() const;

  // Whether text that is not UTF-8 is refused.
  virtual bool needs_utf8() const = 0;

  // Ids must be below the vocabulary.
  std::string decode(std::span<const Id> ids) const;

  // Writes and reads the files of a folder.
  void save(const std::filesystem::path& folder) const;
  static std::shared_ptr<Tokenizer> load(const std::filesystem::path& folder);

  // sha256 of the files.
  std::string fingerprint() const;

 protected:
  virtual nlohmann::json to_json() const = 0;       // tokenizer.json
  virtual std::string model() const { return ""; }  // tokenizer.model; "": there is none
};

std::shared_ptr<Tokenizer> byte_tokenizer();

// Of the code points of `text`, which must be UTF-8.
std::shared_ptr<Tokenizer> char_tokenizer(std::string_view text, const std::string& where);

// `merges` is the text of vocab.bpe.
std::shared_ptr<Tokenizer> gpt2_tokenizer(std::string_view merges, const std::string& where);

// gpt2 or bpe from merges as vocab.bpe has them, a line each.
std::shared_ptr<Tokenizer> merging_tokenizer(const std::string& type,
                                             std::vector<std::string> merges,
                                             const std::string& where);

// Byte-level BPE with `vocabulary` ids, end of text included, learned from any text (Sennrich, Haddow
// and Birch, 2016): the most frequent pair of neighbours within words becomes a piece, again and again;
// of equally frequent pairs the one with the smaller ids. Needs PCRE2.
std::shared_ptr<Tokenizer> train_bpe(std::string_view text, int64_t vocabulary,
                                     const std::string& where);

// BPE with `vocabulary` ids learned from UTF-8 text.
std::shared_ptr<Tokenizer> train_sentencepiece(std::string_view text, int64_t vocabulary,
                                               const std::string& where);

// Each for its own "type" in tokenizer.json.
std::shared_ptr<Tokenizer> char_tokenizer_from(const nlohmann::json& object,
                                               const std::string& where);
std::shared_ptr<Tokenizer> merging_tokenizer_from(const nlohmann::json& object,
                                                  const std::string& where);
std::shared_ptr<Tokenizer> sentencepiece_from(const nlohmann::json& object,
                                              const std::string& model, const std::string& where);

}  // namespace geores
