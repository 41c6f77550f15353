// Flags made from Fields: one per key, in whole words, with the same help and the same checks.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "geores/base/config.h"

namespace geores::cli {

// Texts of the flags that were given, by key; parsed by the owner of the key.
using GivenFlags = std::map<std::string, std::string>;

inline void add_flag_for(CLI::App& command, GivenFlags& given, const std::string& key,
                         const std::string& help, const std::string& default_text,
                         const std::string& group) {
  command
      .add_option_function<std::string>(
          flag_name(key), [&given, key](const std::string& text) { given[key] = text; },
          help + (default_text.empty() ? "" : " [" + default_text + "]"))
      ->group(group);
}

}  // namespace geores::cli
