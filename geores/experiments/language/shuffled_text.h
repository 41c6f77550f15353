// The null control of MGT's experiment on β: a prepared text whose ids are in random order, so that
// nothing can be learned but how often each occurs.
#pragma once

#include <filesystem>
#include <string_view>

namespace geores {

inline constexpr std::string_view kShuffled = "-shuffled";

// Makes FOLDER-shuffled beside a prepared folder: its .bin files (uint16 ids) permuted by a fixed
// seed, its other files as they are. A folder that is there is kept. Written under another name and
// renamed at the end.
void make_shuffled_text(const std::filesystem::path& folder);

}  // namespace geores
