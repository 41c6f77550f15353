// Output besides results: progress, notices, errors. It goes to stderr and is
// dropped where stderr cannot be written (a closed terminal, a full disk): work does not end because
// nothing reads it. Results go to stdout with fmt::print; main() reports when those are lost.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace geores::cli {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  const auto line = fmt::format(text, std::forward<Args>(args)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace geores::cli
