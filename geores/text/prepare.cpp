#include "geores/text/prepare.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/files/folder_lock.h"
#include "geores/base/files/remove_folder.h"
#include "geores/base/sha256.h"
#include "geores/text/utf8.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string name;  // for messages: a file, or several
  std::string text;
};

std::string without_loss(std::string text, const std::string& tokenizer) {
  text = with_invalid_replaced(text);
  if (tokenizer != "sentencepiece") return text;
  const auto space = to_utf8(0x2581);
  for (auto at = text.find(space); at != std::string::npos; at = text.find(space, at))
    text.replace(at, space.size(), " ");
  return text;
}

std::vector<Source> read_sources(const std::vector<std::string>& files,
                                 const PrepareOptions& options) {
  std::vector<Source> sources;
  for (const auto& file : files) {
    auto text = read_text_file(file);
    require(!text.empty(), file, "is empty");
    const bool needs_utf8 = options.tokenizer == "chars" || options.tokenizer == "sentencepiece";
    if (needs_utf8 && options.lossy) text = without_loss(std::move(text), options.tokenizer);
    if (const auto at = needs_utf8 ? first_invalid(text) : std::nullopt)
      fail(file,
           "byte {} at offset {} is not UTF-8; data text --lossy replaces such bytes, the "
           "tokeniser bytes "
           "takes them",
           static_cast<unsigned char>(text[*at]), *at);
    sources.push_back({file, std::move(text)});
  }
  return sources;
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Characters; bytes where not all text is UTF-8.
size_t count_units(std::string_view text, bool characters) {
  if (!characters) return text.size();
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

// The byte at which unit number `left` begins.
size_t position_of(std::string_view text, size_t left, bool characters) {
  if (!characters) return left;
  size_t at = 0;
  for (; at < text.size(); ++at)
    if (begins_character(text[at]) && left-- == 0) break;
  return at;
}

// Behind the separator at `begin`, with the line end that belongs to it.
size_t behind(std::string_view text, size_t begin, const std::string& separator) {
  const auto end = begin + separator.size();
  return end < text.size() && text[end] == '\n' ? end + 1 : end;
}

// A cut within a separator, or between it and its line end, moves behind it.
size_t outside_separators(std::string_view text, size_t at, const std::string& separator) {
  if (separator.empty() || at == 0) return at;
  const auto begin = text.rfind(separator, at - 1);
  if (begin == std::string_view::npos) return at;
  const auto end = behind(text, begin, separator);
  return end > at ? end : at;
}

bool stands_behind(std::string_view text, size_t at, const std::string& separator) {
  if (separator.empty()) return false;
  const auto before = text.substr(0, at);
  return before.ends_with(separator) || before.ends_with(separator + "\n");
}

// Moves the last part of the sources into a list of their own: ⌊(1 − fraction) n⌋ of all characters
// stay.
std::vector<Source> cut_off(std::vector<Source>& sources, const PrepareOptions& options) {
  require(options.valid_fraction > 0 && options.valid_fraction < 1, "data",
          "--valid-fraction must be between 0 and 1, got {}", options.valid_fraction);
  require(options.cut != "documents" || !options.separator.empty(), "data",
          "--cut documents needs --separator");
  const bool characters = std::ranges::none_of(
      sources, [](const Source& source) { return first_invalid(source.text).has_value(); });
  size_t units = 0;
  for (const auto& source : sources) units += count_units(source.text, characters);
  auto left =
      static_cast<size_t>(std::floor(static_cast<double>(units) * (1 - options.valid_fraction)));
  auto cut = sources.begin();
  for (; std::next(cut) != sources.end(); ++cut) {
    const auto here = count_units(cut->text, characters);
    if (left < here) break;
    left -= here;
  }
  const auto& text = cut->text;
  const auto wanted = position_of(text, left, characters);
  auto at = outside_separators(text, wanted, options.separator);
  const bool begins_document = at > wanted || stands_behind(text, at, options.separator);
  if (options.cut == "documents" && at > 0 && !begins_document) {
    const auto next = text.find(options.separator, at);
    const bool last = std::next(cut) == sources.end();
    require(next != std::string::npos || !last, cut->name,
            "has no document after byte {} to validate on", at);
    at = next == std::string::npos ? text.size() : behind(text, next, options.separator);
  }
  std::vector<Source> rest;
  if (at < text.size()) rest.push_back({cut->name, text.substr(at)});
  rest.insert(rest.end(), std::make_move_iterator(std::next(cut)),
              std::make_move_iterator(sources.end()));
  cut->text.resize(at);
  sources.erase(at > 0 ? std::next(cut) : cut, sources.end());
  require(!sources.empty() && !rest.empty(), "data", "--valid-fraction {} gives an empty split {}",
          options.valid_fraction, sources.empty() ? "train on" : "validate on");
  return rest;
}

std::vector<std::string_view> documents_of(std::string_view text, const std::string& separator) {
  if (separator.empty()) return {text};
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const auto end = text.find(separator);
    if (end != 0) documents.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + separator.size());
    if (text.starts_with('\n')) text.remove_prefix(1);
  }
  return documents;
}

std::shared_ptr<Tokenizer> make_tokenizer(const PrepareOptions& options,
                                          const std::vector<Source>& train,
                                          const std::vector<Source>& all) {
  const auto joined = [&](const std::vector<Source>& sources) {
    std::string text;
    for (const auto& source : sources)
      for (const auto document : documents_of(source.text, options.separator)) text += document;
    return text;
  };
  if (!options.tokenizer_of.empty()) return Tokenizer::load(options.tokenizer_of);
  if (options.tokenizer == "bytes") return byte_tokenizer();
  if (options.tokenizer == "chars") return char_tokenizer(joined(all), all.front().name);
  if (options.tokenizer == "sentencepiece")
    return train_sentencepiece(joined(train), options.vocabulary, train.front().name);
  if (options.tokenizer == "bpe")
    return train_bpe(joined(train), options.vocabulary, train.front().name);
  require(options.tokenizer == "gpt2", "data",
          "--tokenizer must be bytes, chars, gpt2, bpe or sentencepiece, got '{}'",
          options.tokenizer);
  require(!options.merges.empty(), "data", "the tokeniser gpt2 needs --merges FILE (vocab.bpe)");
  return gpt2_tokenizer(read_text_file(options.merges), options.merges);
}

struct Encoded {
  Ids ids;
  TextFacts facts;
};

// Each document of every split then ends with an end of text.
bool has_documents(const PrepareOptions& options) {
  return !options.separator.empty() || options.input.size() > 1 || options.valid.size() > 1 ||
         options.test.size() > 1;
}

Encoded encode(const Tokenizer& tokenizer, const std::vector<Source>& sources,
               const PrepareOptions& options) {
  const bool separated = has_documents(options);
  require(!separated || tokenizer.end_of_text(), "data",
          "the tokeniser {} has no end of text, which separated documents and several files need",
          tokenizer.name());
  Encoded all;
  Sha256 hash;
  for (const auto& [name, text] : sources) {
    hash.add(text);
    for (const auto document : documents_of(text, options.separator)) {
      const auto ids = tokenizer.encode(document, name);
      all.ids.insert(all.ids.end(), ids.begin(), ids.end());
      if (separated) all.ids.push_back(*tokenizer.end_of_text());
      all.facts.bytes += static_cast<int64_t>(document.size());
      all.facts.words += count_words(document);
      ++all.facts.documents;
    }
  }
  require(!all.ids.empty(), sources.front().name, "gives no ids");
  all.facts.ids = static_cast<int64_t>(all.ids.size());
  all.facts.sha256 = hash.hex();
  return all;
}

// Files come to a folder of prepared text when all of them are written: a failure before, a full
// disk for example, leaves the folder as it was.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const fs::path& target) : path_(target / ".unfinished") {
    remove_folder(path_);  // of a preparation that was killed
    std::error_code error;
    fs::create_directory(path_, error);
    require(!error, path_.string(), "cannot be made: {}", error.message());
  }
  ~UnfinishedFolder() { remove_folder(path_); }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const fs::path& path() const { return path_; }

  // data.json goes first and comes last: a kill must not leave old facts with new ids.
  void move_all_to(const fs::path& target) const {
    std::error_code error;
    for (const auto* name : {"data.json", "test.bin", "tokenizer.model"})
      fs::remove(target / name, error);
    const auto move = [&](const fs::path& file) {
      fs::rename(file, target / file.filename(), error);
      require(!error, (target / file.filename()).string(), "cannot be written: {}",
              error.message());
    };
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path_))
      if (entry.path().filename() != "data.json") files.push_back(entry.path());
    for (const auto& file : files) move(file);
    move(path_ / "data.json");
  }

 private:
  fs::path path_;
};

}  // namespace

double unigram_entropy(std::span<const Id> ids) {
  std::vector<double> counts(kMostIds);
  for (const auto id : ids) ++counts[id];
  double entropy = 0;
  for (const auto count : counts) {
    const auto p = count / static_cast<double>(ids.size());
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

Prepared prepare_text(const PrepareOptions& given) {
  auto options = given;
  if (!options.tokenizer_of.empty())
    options.tokenizer = Tokenizer::load(options.tokenizer_of)->name();
  require(!options.input.empty(), "data", "--input FILE is required");
  require(!options.out.empty(), "data", "--out DIR is required");
  require(options.cut == "characters" || options.cut == "documents", "data",
          "--cut must be characters or documents, got '{}'", options.cut);
  std::map<std::string, std::vector<Source>> sources;
  sources["train"] = read_sources(options.input, options);
  std::vector<Source> all = sources["train"];  // chars are those of the whole text
  for (const auto& [name, files] :
       {std::pair("val", options.valid), std::pair("test", options.test)})
    if (!files.empty()) {
      sources[name] = read_sources(files, options);
      all.insert(all.end(), sources[name].begin(), sources[name].end());
    }
  if (!sources.contains("val")) sources["val"] = cut_off(sources["train"], options);
  const auto tokenizer = make_tokenizer(options, sources["train"], all);
  all.clear();

  Prepared prepared{
      .splits = {}, .tokenizer = tokenizer->name(), .vocabulary = tokenizer->vocabulary()};
  std::error_code error;
  fs::create_directories(options.out, error);
  require(!error, options.out, "cannot be made: {}", error.message());
  const FolderLock lock(options.out);
  const UnfinishedFolder unfinished(options.out);
  const auto& folder = unfinished.path();
  nlohmann::json splits;
  for (const auto& [name, parts] : sources) {
    const auto encoded = encode(*tokenizer, parts, options);
    if (name == "train") prepared.unigram_entropy = unigram_entropy(encoded.ids);
    write_file_atomically(folder / (name + ".bin"), std::as_bytes(std::span(encoded.ids)));
    prepared.splits[name] = encoded.facts;
    splits[name] = encoded.facts.to_json();
  }
  tokenizer->save(folder);
  const nlohmann::json facts = {{"version", 1},
                                {"program", "geores"},
                                {"tokenizer", tokenizer->name()},
                                {"tokenizer_sha256", tokenizer->fingerprint()},
                                {"vocabulary", tokenizer->vocabulary()},
                                {"splits", splits},
                                {"checked", nlohmann::json::object()}};
  write_file_atomically(folder / "data.json", facts.dump(2) + "\n");
  unfinished.move_all_to(options.out);
  return prepared;
}

}  // namespace geores
