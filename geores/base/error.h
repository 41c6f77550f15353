// The one way in which geores refuses: an exception whose text is one line that names the thing and
// the value.
//   require(iterations >= 1, "sinkhorn", "iterations must be >= 1, got {}", iterations);
//   -> [sinkhorn] iterations must be >= 1, got 0
// The text is a single line of valid UTF-8 even if it quotes a hostile file: it can be written to a
// terminal, a log or a JSON string without changes.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "geores/base/refusal.h"

namespace geores {

template <class... Args>
[[noreturn]] void fail(std::string_view where, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format("[{}] {}", where, fmt::format(text, std::forward<Args>(args)...)));
}

template <class... Args>
void require(bool condition, std::string_view where, fmt::format_string<Args...> text,
             Args&&... args) {
  if (!condition) fail(where, text, std::forward<Args>(args)...);
}

}  // namespace geores
