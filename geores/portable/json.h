// A strict JSON reader for what a model needs: the header of a safetensors file and a run's
// config.json. base/ reads JSON with nlohmann-json, which alone is twice the size that the whole
// predictor may have in the browser.
//   const auto header = Json::parse(text, "best.safetensors");
//   header.at("w").at("shape").items()
// Refused in one line: anything that is not JSON, a key given twice, nesting deeper than 32.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace geores::portable {

class Json {
 public:
  enum class Kind { null, boolean, number, string, array, object };

  // `where` stands for the text in errors.
  static Json parse(std::string_view text, std::string_view where);

  Kind kind() const { return kind_; }
  bool boolean() const { return number_ != 0; }
  double number() const { return number_; }
  const std::string& string() const { return string_; }
  const std::vector<Json>& items() const { return items_; }
  const std::vector<std::pair<std::string, Json>>& members() const { return members_; }

  const Json* find(std::string_view key) const;  // null: there is none

 private:
  friend class JsonReader;
  Kind kind_ = Kind::null;
  double number_ = 0;
  std::string string_;
  std::vector<Json> items_;
  std::vector<std::pair<std::string, Json>> members_;
};

}  // namespace geores::portable
