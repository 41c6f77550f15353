#include "geores/base/json.h"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "geores/base/error.h"

namespace geores {

nlohmann::json parse_json(std::string_view text, std::string_view where) {
  constexpr std::size_t deepest = 64;
  using Event = nlohmann::json::parse_event_t;

  // The parser takes a NUL byte for the end of the text and would accept anything behind it.
  require(text.find('\0') == text.npos, where, "not valid JSON: NUL byte at position {}",
          text.find('\0'));

  std::vector<std::set<std::string>> keys;  // of every open object or array, outermost first
  const auto watch = [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start || event == Event::array_start) {
      require(keys.size() < deepest, where, "JSON is nested deeper than {} levels", deepest);
      keys.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      require(keys.back().insert(key).second, where, "key {} appears twice in one object",
              quote(key));
    }
    return true;
  };

  try {
    return nlohmann::json::parse(text, watch);
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
