// SentencePiece (Kudo and Richardson, arXiv:1808.06226), set so that nothing is lost: the text is not
// normalised, runs of spaces stay, and characters without a piece become single bytes. The library
// reads line by line, so a line end is the piece of its byte. Two inputs would come back changed and
// are refused: bytes that are not UTF-8, and U+2581, which represents a space in the pieces.
#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>

#include "geores/base/error.h"
#include "geores/text/sentencepiece/sentencepiece_library.h"
#include "geores/text/tokenizer.h"
#include "geores/text/utf8.h"

namespace geores {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

// Calls line(text) for each line without its end, and end() for each line end.
template <class Line, class End>
void each_line(std::string_view text, Line&& line, End&& end) {
  while (true) {
    const auto at = text.find('\n');
    line(text.substr(0, at));
    if (at == std::string_view::npos) return;
    end();
    text.remove_prefix(at + 1);
  }
}

void require_encodable(std::string_view text, const std::string& where) {
  if (const auto at = first_invalid(text))
    fail(where,
         "byte {} at offset {} is not UTF-8; data text --lossy replaces such bytes, the tokeniser "
         "bytes takes them",
         static_cast<unsigned char>(text[*at]), *at);
  const auto at = text.find(kSpace);
  require(at == std::string_view::npos, where,
          "U+2581 at byte offset {} would come back as a space; data text --lossy accepts that",
          at);
}

// The bytes of a piece; `<0x0A>` is one byte.
std::string bytes_of_piece(const std::string& piece) {
  if (piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with(">")) {
    unsigned byte = 0;
    const auto* begin = piece.data() + 3;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr == begin + 2)
      return std::string(1, static_cast<char>(byte));
  }
  std::string bytes;
  for (size_t at = 0; at < piece.size();) {
    const bool space = std::string_view(piece).substr(at).starts_with(kSpace);
    bytes += space ? ' ' : piece[at];
    at += space ? kSpace.size() : 1;
  }
  return bytes;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // pieces as the library calls them; `model` may be empty: then it decodes only. Decoding needs no library.
  SentencePieceTokenizer(std::vector<std::string> pieces, std::string model,
                         const std::string& where)
      : names_(std::move(pieces)), model_(std::move(model)) {
    for (const auto& piece : names_)
      bytes_.push_back(piece == "<unk>" ? "" : bytes_of_piece(piece));
    const auto find = [&](std::string_view piece) {
      const auto found = std::ranges::find(names_, piece);
      require(found != names_.end(), where, "has no piece '{}'", piece);
      return static_cast<Id>(found - names_.begin());
    };
    end_of_text_ = find(kEndOfText);
    line_end_ = find("<0x0A>");
  }

  std::string name() const override { return "sentencepiece"; }

  Ids encode(std::string_view text, const std::string& where) const override {
    require_encodable(text, where);
    require(!model_.empty(), where, "cannot be encoded: tokenizer.model is missing");
    std::call_once(opened_, [&] {
      auto encoder = std::make_unique<SentencePieceModel>(model_, where);
      require(encoder->pieces() == names_, where,
              "cannot be encoded: tokenizer.model and tokenizer.json have different pieces");
      encoder_ = std::move(encoder);
    });
    Ids ids;
    each_line(
        text,
        [&](std::string_view line) {
          for (const auto id : encoder_->encode(line, where)) ids.push_back(static_cast<Id>(id));
        },
        [&] { ids.push_back(line_end_); });
    return ids;
  }

  std::string_view piece(Id id) const override { return bytes_[id]; }
  int64_t vocabulary() const override { return static_cast<int64_t>(bytes_.size()); }
  std::optional<Id> end_of_text() const override { return end_of_text_; }
  bool needs_utf8() const override { return true; }

 private:
  nlohmann::json to_json() const override {
    return {{"type", "sentencepiece"}, {"pieces", names_}};
  }
  std::string model() const override { return model_; }

  std::vector<std::string> names_, bytes_;
  std::string model_;
  Id end_of_text_ = 0, line_end_ = 0;
  mutable std::once_flag opened_;
  mutable std::unique_ptr<SentencePieceModel> encoder_;  // with the first text
};

}  // namespace

std::shared_ptr<Tokenizer> train_sentencepiece(std::string_view text, int64_t vocabulary,
                                               const std::string& where) {
  require(vocabulary >= 1 && vocabulary <= kMostIds, "sentencepiece",
          "vocabulary must be in 1..{}, got {}", kMostIds, vocabulary);
  require_encodable(text, where);
  std::vector<std::string_view> lines;
  each_line(
      text,
      [&](std::string_view line) {
        if (!line.empty() && line.find('\0') == line.npos) lines.push_back(line);
      },
      [] {});
  require(!lines.empty(), where, "holds nothing to learn pieces from");
  const auto model = SentencePieceModel::train(lines, vocabulary, std::string(kEndOfText), where);
  return std::make_shared<SentencePieceTokenizer>(SentencePieceModel(model, where).pieces(), model,
                                                  where);
}

std::shared_ptr<Tokenizer> sentencepiece_from(const nlohmann::json& object,
                                              const std::string& model, const std::string& where) {
  require(object.contains("pieces") && object["pieces"].is_array(), where, "has no 'pieces'");
  require(static_cast<int64_t>(object["pieces"].size()) <= kMostIds, where,
          "has {} pieces, more than {} ids", object["pieces"].size(), kMostIds);
  std::vector<std::string> pieces;
  for (const auto& piece : object["pieces"]) {
    require(piece.is_string(), where, "a piece must be text, got {}", piece.dump());
    pieces.push_back(piece.get<std::string>());
  }
  return std::make_shared<SentencePieceTokenizer>(std::move(pieces), model, where);
}

}  // namespace geores
