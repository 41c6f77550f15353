#include "geores/text/tokenizer.h"

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/base/sha256.h"

namespace geores {

namespace fs = std::filesystem;

std::string Tokenizer::decode(std::span<const Id> ids) const {
  std::string text;
  for (const auto id : ids) {
    require(id < vocabulary(), name(), "id {} is not below the vocabulary of {}", id, vocabulary());
    text += piece(id);
  }
  return text;
}

Id Tokenizer::before_first() const {
  if (const auto end = end_of_text()) return *end;
  for (int64_t id = 0; id < vocabulary(); ++id)
    if (piece(static_cast<Id>(id)) == "\n") return static_cast<Id>(id);
  return 0;
}

void Tokenizer::save(const fs::path& folder) const {
  write_file_atomically(folder / "tokenizer.json", to_json().dump() + "\n");
  if (const auto bytes = model(); !bytes.empty())
    write_file_atomically(folder / "tokenizer.model", bytes);
}

std::string Tokenizer::fingerprint() const { return sha256(to_json().dump() + "\n" + model()); }

std::shared_ptr<Tokenizer> Tokenizer::load(const fs::path& folder) {
  const auto file = (folder / "tokenizer.json").string();
  require(fs::exists(file), folder.string(), "has no tokenizer.json");
  const auto object = parse_json(read_text_file(file), file);
  require(object.is_object() && object.contains("type") && object["type"].is_string(), file,
          "does not say its 'type'");
  const auto type = object["type"].get<std::string>();
  if (type == "bytes") return byte_tokenizer();
  if (type == "chars") return char_tokenizer_from(object, file);
  if (type == "gpt2" || type == "bpe") return merging_tokenizer_from(object, file);
  require(type == "sentencepiece", file,
          "unknown type '{}', expected bytes, chars, gpt2, bpe or sentencepiece", type);
  const auto model = folder / "tokenizer.model";
  return sentencepiece_from(object, fs::exists(model) ? read_text_file(model) : "", file);
}

namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int byte = 0; byte < 256; ++byte) bytes_ += static_cast<char>(byte);
  }
  std::string name() const override { return "bytes"; }
  Ids encode(std::string_view text, const std::string&) const override {
    Ids ids(text.size());
    for (size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
    return ids;
  }
  std::string_view piece(Id id) const override {
    return id == 256 ? kEndOfText : std::string_view(bytes_).substr(id, 1);
  }
  int64_t vocabulary() const override { return 257; }
  std::optional<Id> end_of_text() const override { return 256; }
  bool needs_utf8() const override { return false; }

 private:
  nlohmann::json to_json() const override { return {{"type", "bytes"}}; }
  std::string bytes_;
};

}  // namespace

std::shared_ptr<Tokenizer> byte_tokenizer() { return std::make_shared<ByteTokenizer>(); }

}  // namespace geores
