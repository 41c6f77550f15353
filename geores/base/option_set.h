// The options of one of several registered things (a task, a model) for those who know them only by
// name: flags, `geores list` and config.json. Made from the struct that owns them:
//   const auto set = OptionSet::of<CopyOptions>();
//   set.complete({{"length", 16}}, "copy");       all options, defaults filled in, checked
//   set.from_text("length", "16", "copy");        one option of a command line
// Where a value depends on another option (a connection brings options of its own), sets are
// joined.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "geores/base/config.h"

namespace geores {

struct OptionDescription {
  std::string key, help, default_text;
  std::vector<std::string> choices;  // empty: any value
};

class OptionSet {
 public:
  using Read = std::function<nlohmann::json(const nlohmann::json& given, const std::string& where)>;
  using Parse = std::function<nlohmann::json(const std::string& key, const std::string& text,
                                             const std::string& where)>;

  OptionSet() = default;
  OptionSet(std::vector<OptionDescription> all, Read complete, Parse from_text);

  // Options: a struct with default values and fields().
  template <class Options>
  static OptionSet of(const Options& defaults = {}) {
    return of_fields([defaults](const UseFields& use) {
      auto options = defaults;
      return use(options.fields());
    });
  }

  const std::vector<OptionDescription>& all() const& { return all_; }
  std::vector<OptionDescription> all() && { return std::move(all_); }  // of a temporary: to keep
  bool has(const std::string& key) const;
  std::vector<std::string> keys() const;

  // Refuses keys that are not there and values that do not fit.
  nlohmann::json complete(const nlohmann::json& given, const std::string& where) const;
  nlohmann::json from_text(const std::string& key, const std::string& text,
                           const std::string& where) const;

  // The options of both; no key may be in both.
  OptionSet joined(const OptionSet& other) const;

 private:
  using UseFields = std::function<nlohmann::json(const Fields&)>;
  static OptionSet of_fields(const std::function<nlohmann::json(const UseFields&)>& with_fields);

  std::vector<OptionDescription> all_;
  Read complete_;
  Parse from_text_;
};

}  // namespace geores
