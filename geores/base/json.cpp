#include "geores/base/json.h"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "geores/base/error.h"

namespace geores {
namespace {

// Refuses two things that the parser accepts: deep nesting and duplicate keys. It is a separate
// pass, because the parser's callback, which could do the same during parsing, takes quadratic
// time.
class Strictness final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Strictness(std::string_view where) : where_(where) {}

  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& key) override {
    require(keys_.back().insert(key).second, where_, "key {} appears twice in one object",
            quote(key));
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  static constexpr std::size_t deepest = 64;

  bool open() {
    require(keys_.size() < deepest, where_, "JSON is nested deeper than {} levels", deepest);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::string_view where_;
  std::vector<std::set<std::string>> keys_;  // of every open object or array, outermost first
};

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view where) {
  // The parser takes a NUL byte for the end of the text and would ignore everything after it.
  const auto nul = text.find('\0');
  require(nul == text.npos, where, "not valid JSON: NUL byte at position {}", nul);
  Strictness strictness(where);
  nlohmann::json::sax_parse(text, &strictness);  // leaves syntax errors to parse()
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    std::string_view reason =
        error.what();  // "[json.exception.parse_error.101] parse error at ..."
    if (const auto tag_end = reason.find("] "); tag_end != reason.npos) {
      reason.remove_prefix(tag_end + 2);
    }
    fail(where, "not valid JSON: {}", printable(reason, 300));
  }
}

}  // namespace geores
