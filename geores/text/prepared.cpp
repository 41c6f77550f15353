#include "geores/text/prepared.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/base/sha256.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kVersion = 1;

int64_t number_at(const nlohmann::json& object, const char* key, const std::string& where) {
  require(object.is_object() && object.contains(key) && object[key].is_number_integer(), where,
          "has no number '{}'", key);
  return object[key].get<int64_t>();
}

std::string text_at(const nlohmann::json& object, const char* key, const std::string& where) {
  require(object.is_object() && object.contains(key) && object[key].is_string(), where,
          "has no text '{}'", key);
  return object[key].get<std::string>();
}

TextFacts facts_from(const nlohmann::json& object, const std::string& where) {
  return {.ids = number_at(object, "ids", where),
          .bytes = number_at(object, "bytes", where),
          .words = number_at(object, "words", where),
          .documents = number_at(object, "documents", where),
          .sha256 = text_at(object, "sha256", where)};
}

// Size and time of a file, as data.json remembers them.
nlohmann::json stamp_of(const fs::path& path) {
  return {{"size", fs::file_size(path)},
          {"time", fs::last_write_time(path).time_since_epoch().count()}};
}

}  // namespace

nlohmann::json TextFacts::to_json() const {
  return {{"ids", ids},
          {"bytes", bytes},
          {"words", words},
          {"documents", documents},
          {"sha256", sha256}};
}

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const auto character : text) {
    const bool space = character == ' ' || (character >= '\t' && character <= '\r');
    if (character == '\n') ++words;
    if (!space && !inside) ++words;
    inside = !space;
  }
  return words;
}

PreparedText PreparedText::open(const std::string& folder, int64_t vocabulary) {
  PreparedText text;
  text.folder_ = folder;
  const auto file = (fs::path(folder) / "data.json").string();
  require(fs::is_directory(folder), folder, "is no folder of prepared text");
  nlohmann::json facts;
  if (fs::exists(file)) {
    facts = parse_json(read_text_file(file), file);
    const auto version = number_at(facts, "version", file);
    require(version <= kVersion, file, "is of version {}; this program reads versions up to {}",
            version, kVersion);
    text.vocabulary_ = number_at(facts, "vocabulary", file);
    require(vocabulary == 0 || vocabulary == text.vocabulary_, file,
            "has a vocabulary of {}, asked for {}", text.vocabulary_, vocabulary);
    text.tokenizer_ = Tokenizer::load(folder);
    require(text.tokenizer_->fingerprint() == text_at(facts, "tokenizer_sha256", file), folder,
            "the tokeniser's files are not those that the text was prepared with");
    require(text.tokenizer_->vocabulary() == text.vocabulary_, file,
            "has a vocabulary of {}, the tokeniser one of {}", text.vocabulary_,
            text.tokenizer_->vocabulary());
  } else {
    require(vocabulary > 0, folder, "has no data.json; give its vocabulary with --vocabulary");
    text.vocabulary_ = vocabulary;
  }
  require(text.vocabulary_ >= 1 && text.vocabulary_ <= kMostIds, folder,
          "a vocabulary of {} is not in 1..{}", text.vocabulary_, kMostIds);
  auto checked =
      facts.is_object() && facts.contains("checked") ? facts["checked"] : nlohmann::json::object();
  require(checked.is_object(), file, "'checked' must be an object, got {}", checked.dump());
  const auto before = checked;
  for (const auto* name : {"train", "val", "test"}) {
    const auto path = fs::path(folder) / (std::string(name) + ".bin");
    if (!fs::exists(path)) {
      require(!facts.is_object() || !facts.contains("splits") || !facts["splits"].contains(name),
              folder, "data.json names {}.bin, which is not there", name);
      continue;
    }
    auto& split = text.splits_[name];
    split.file = std::make_shared<MappedIds>(path);
    text.check_ids(name, checked);
    if (facts.is_null()) continue;
    require(facts.contains("splits") && facts["splits"].contains(name), file,
            "says nothing of {}.bin", name);
    split.facts = facts_from(facts["splits"][name], file);
    require(split.facts->ids == static_cast<int64_t>(split.ids().size()), path.string(),
            "has {} ids, data.json says {}", split.ids().size(), split.facts->ids);
  }
  require(!text.splits_.empty(), folder, "has no train.bin, val.bin or test.bin");
  if (facts.is_object() && checked != before) {
    facts["checked"] = checked;
    try {
      write_file_atomically(file, facts.dump(2) + "\n");
    } catch (const Error&) {
      // A folder that cannot be written is checked each time.
    }
  }
  return text;
}

void PreparedText::check_ids(const std::string& name, nlohmann::json& remembered) {
  auto& split = splits_.at(name);
  auto stamp = stamp_of(split.file->path());
  if (remembered.contains(name)) {
    const auto& before = remembered[name];
    stamp["sha256"] = before.is_object() ? before.value("sha256", nlohmann::json()) : nullptr;
    if (before == stamp && stamp["sha256"].is_string()) {
      split.sha256 = stamp["sha256"].get<std::string>();
      return;
    }
  }
  const auto ids = split.ids();
  const auto bad = std::ranges::find_if(ids, [&](Id id) { return int64_t{id} >= vocabulary_; });
  require(bad == ids.end(), split.file->path().string(),
          "id {} at position {} is not below the vocabulary of {}", bad == ids.end() ? 0 : *bad,
          bad - ids.begin(), vocabulary_);
  Sha256 hash;
  hash.add(std::as_bytes(ids));
  split.sha256 = hash.hex();
  stamp["sha256"] = split.sha256;
  remembered[name] = stamp;
}

const PreparedSplit& PreparedText::split(const std::string& name) const {
  const auto found = splits_.find(name);
  require(found != splits_.end(), folder_, "has no {}.bin", name);
  return found->second;
}

const Tokenizer& PreparedText::tokenizer_for(const std::string& purpose) const {
  require(tokenizer_ != nullptr, folder_, "has no data.json and no tokeniser: {} is not possible",
          purpose);
  return *tokenizer_;
}

Id PreparedText::before_first() const { return tokenizer_ ? tokenizer_->before_first() : Id{0}; }

}  // namespace geores
