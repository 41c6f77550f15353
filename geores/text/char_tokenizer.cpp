#include <map>
#include <set>

#include "geores/base/error.h"
#include "geores/text/tokenizer.h"
#include "geores/text/utf8.h"

namespace geores {
namespace {

class CharTokenizer final : public Tokenizer {
 public:
  explicit CharTokenizer(const std::set<char32_t>& characters) {
    for (const auto character : characters) {
      ids_[character] = static_cast<Id>(pieces_.size());
      pieces_.push_back(to_utf8(character));
    }
  }

  std::string name() const override { return "chars"; }

  Ids encode(std::string_view text, const std::string& where) const override {
    Ids ids;
    ids.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const auto point = code_point_at(text, at);
      require(point.bytes > 0, where, "byte {} at offset {} is not UTF-8",
              static_cast<unsigned char>(text[at]), at);
      const auto found = ids_.find(point.value);
      require(found != ids_.end(), where,
              "the character U+{:04X} at byte offset {} is not among the {} of the vocabulary",
              static_cast<uint32_t>(point.value), at, pieces_.size());
      ids.push_back(found->second);
      at += point.bytes;
    }
    return ids;
  }

  std::string_view piece(Id id) const override { return pieces_[id]; }
  int64_t vocabulary() const override { return static_cast<int64_t>(pieces_.size()); }
  std::optional<Id> end_of_text() const override { return std::nullopt; }
  bool needs_utf8() const override { return true; }

 private:
  nlohmann::json to_json() const override {
    std::string all;
    for (const auto& piece : pieces_) all += piece;
    return {{"type", "chars"}, {"characters", all}};
  }

  std::map<char32_t, Id> ids_;
  std::vector<std::string> pieces_;
};

}  // namespace

std::shared_ptr<Tokenizer> char_tokenizer(std::string_view text, const std::string& where) {
  std::set<char32_t> characters;
  for (size_t at = 0; at < text.size();) {
    const auto point = code_point_at(text, at);
    require(point.bytes > 0, where,
            "byte {} at offset {} is not UTF-8; data text --lossy replaces such bytes, the "
            "tokeniser bytes "
            "takes them",
            static_cast<unsigned char>(text[at]), at);
    characters.insert(point.value);
    at += point.bytes;
  }
  require(!characters.empty(), where, "holds no characters");
  require(static_cast<int64_t>(characters.size()) <= kMostIds, where,
          "{} different characters are more than {} ids", characters.size(), kMostIds);
  return std::make_shared<CharTokenizer>(characters);
}

std::shared_ptr<Tokenizer> char_tokenizer_from(const nlohmann::json& object,
                                               const std::string& where) {
  require(object.contains("characters") && object["characters"].is_string(), where,
          "has no 'characters'");
  return char_tokenizer(object["characters"].get<std::string>(), where);
}

}  // namespace geores
