// SentencePiece (Kudo and Richardson, arXiv:1808.06226), set so that nothing is lost: the text is not
// normalised, runs of spaces stay, and characters without a piece become single bytes. The library
// reads line by line, so a line end is the piece of its byte. Two inputs would come back changed and
// are refused: bytes that are not UTF-8, and U+2581, which stands for a space in the pieces.
#ifdef GEORES_HAS_SENTENCEPIECE
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#endif

#include <algorithm>
#include <charconv>

#include "geores/base/error.h"
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
    fail(
        where,
        "byte {} at offset {} is not UTF-8; --lossy replaces such bytes, the tokeniser bytes takes "
        "them",
        static_cast<unsigned char>(text[*at]), *at);
  const auto at = text.find(kSpace);
  require(at == std::string_view::npos, where,
          "U+2581 at byte offset {} would come back as a space; --lossy accepts that", at);
}

// The bytes that a piece stands for; `<0x0A>` is one byte.
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
  // pieces as the library calls them; `model` may be empty: then it decodes only.
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
#ifdef GEORES_HAS_SENTENCEPIECE
    if (model_.empty()) return;
    const auto status = processor_.LoadFromSerializedProto(model_);
    require(status.ok() && processor_.GetPieceSize() == static_cast<int>(names_.size()), where,
            "the model beside it does not belong to it: {}", status.message());
#endif
  }

  std::string name() const override { return "sentencepiece"; }

  Ids encode(std::string_view text, const std::string& where) const override {
    require_encodable(text, where);
#ifdef GEORES_HAS_SENTENCEPIECE
    require(!model_.empty(), where, "cannot be encoded: tokenizer.model is missing");
    Ids ids;
    std::vector<int> some;
    each_line(
        text,
        [&](std::string_view line) {
          const auto status = processor_.Encode({line.data(), line.size()}, &some);
          require(status.ok(), where, "SentencePiece: {}", status.message());
          for (const auto id : some) ids.push_back(static_cast<Id>(id));
        },
        [&] { ids.push_back(line_end_); });
    return ids;
#else
    fail(where,
         "cannot be encoded: this program was built without SentencePiece; install "
         "libsentencepiece-dev and build with GEORES_SENTENCEPIECE=ON");
#endif
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
#ifdef GEORES_HAS_SENTENCEPIECE
  sentencepiece::SentencePieceProcessor processor_;
#endif
};

#ifdef GEORES_HAS_SENTENCEPIECE
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> lines_;
  size_t next_ = 0;
};
#endif

}  // namespace

std::shared_ptr<Tokenizer> train_sentencepiece(std::string_view text, int64_t vocabulary,
                                               const std::string& where) {
#ifdef GEORES_HAS_SENTENCEPIECE
  require(vocabulary >= 1 && vocabulary <= kMostIds, "sentencepiece",
          "vocabulary must lie in 1..{}, got {}", kMostIds, vocabulary);
  require_encodable(text, where);
  std::vector<std::string> lines;
  each_line(
      text,
      [&](std::string_view line) {
        if (!line.empty() && line.find('\0') == line.npos) lines.emplace_back(line);
      },
      [] {});
  require(!lines.empty(), where, "holds nothing to learn pieces from");
  Lines sentences(std::move(lines));
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train({{"model_type", "bpe"},
                                                  {"vocab_size", std::to_string(vocabulary)},
                                                  {"normalization_rule_name", "identity"},
                                                  {"byte_fallback", "true"},
                                                  {"add_dummy_prefix", "false"},
                                                  {"remove_extra_whitespaces", "false"},
                                                  {"control_symbols", std::string(kEndOfText)},
                                                  {"bos_id", "-1"},
                                                  {"eos_id", "-1"},
                                                  {"max_sentence_length", "100000"},
                                                  {"num_threads", "2"},
                                                  {"minloglevel", "2"}},
                                                 &sentences, &model);
  const std::string message = status.message();
  require(status.ok(), where, "SentencePiece: {}", message);
  sentencepiece::SentencePieceProcessor processor;
  require(processor.LoadFromSerializedProto(model).ok(), where,
          "SentencePiece cannot read its own model");
  std::vector<std::string> pieces;
  for (int id = 0; id < processor.GetPieceSize(); ++id) pieces.push_back(processor.IdToPiece(id));
  return std::make_shared<SentencePieceTokenizer>(std::move(pieces), model, where);
#else
  fail(where,
       "{} pieces cannot be learned from {} bytes: this program was built without SentencePiece; "
       "install libsentencepiece-dev and build with GEORES_SENTENCEPIECE=ON",
       vocabulary, text.size());
#endif
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
