// Text that is ready to learn from: a folder of train.bin, val.bin and possibly test.bin (ids,
// mapped_ids.h), data.json (their description) and the tokeniser's files. A folder that nanoGPT made has
// the .bin files alone; its vocabulary must then be given, and functions that need text throw.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "geores/text/mapped_ids.h"
#include "geores/text/tokenizer.h"

namespace geores {

// Of one split.
struct TextFacts {
  int64_t ids = 0;
  int64_t bytes = 0;        // of its text, without separators
  int64_t words = 0;        // separated by white space, and one for each line end
  int64_t documents = 0;    // 1 where they are not separated
  std::string sha256 = {};  // of the text it was made from

  nlohmann::json to_json() const;
};

int64_t count_words(std::string_view text);

struct PreparedSplit {
  std::shared_ptr<const MappedIds> file;
  std::optional<TextFacts> facts;  // none without data.json
  std::string sha256 = {};         // of the file

  std::span<const Id> ids() const { return file->ids(); }
};

class PreparedText {
 public:
  // `vocabulary` is for a folder without data.json; 0: there must be one. Every id is checked to be
  // below the vocabulary when a file is opened first; data.json remembers size and time of files
  // that passed, and their sha256. Without data.json, files are read whole at every open.
  static PreparedText open(const std::string& folder, int64_t vocabulary = 0);

  const std::string& folder() const { return folder_; }
  int64_t vocabulary() const { return vocabulary_; }
  const PreparedSplit& split(const std::string& name) const;  // "train", "val" or "test"
  const std::map<std::string, PreparedSplit>& splits() const { return splits_; }

  // Null without data.json.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  // The same, throwing if there is none; `purpose` is the reason in the message.
  const Tokenizer& tokenizer_for(const std::string& purpose) const;

  // The tokeniser's; 0 without one.
  Id before_first() const;

 private:
  void check_ids(const std::string& name, nlohmann::json& remembered);

  std::string folder_;
  int64_t vocabulary_ = 0;
  std::map<std::string, PreparedSplit> splits_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace geores
