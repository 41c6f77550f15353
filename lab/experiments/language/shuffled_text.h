// The null control of MGT's experiment on β: a prepared text with its ids in random order, which
// leaves only their frequencies to learn.
#pragma once

#include <filesystem>
#include <string_view>

namespace geores {

inline constexpr std::string_view kShuffled = "-shuffled";

// Creates FOLDER-shuffled next to a prepared folder: its .bin files (uint16 ids) permuted with a
// fixed seed, its other files copied. An existing folder is kept. It is written under another name
// and renamed at the end.
void make_shuffled_text(const std::filesystem::path& folder);

}  // namespace geores
