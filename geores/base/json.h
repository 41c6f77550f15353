// Strict JSON reading: one value, no duplicate keys, no comments, valid UTF-8, at most 64 levels.
//   const auto options = parse_json(read_text_file(path), path);
//   -> [run.json] not valid JSON: parse error at line 3, column 7: ...
//   -> [run.json] key 'streams' appears twice in one object
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace geores {

// Throws only geores::Error (and std::bad_alloc); `where` names the text in the message.
nlohmann::json parse_json(std::string_view text, std::string_view where);

}  // namespace geores
