// Removes a folder with everything in it, as far as that is possible; no error if it is not there.
// Used instead of std::filesystem::remove_all: LibTorch's wheels for Linux export a remove_all of
// their own, which replaces the standard library's and crashes.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace geores {

inline void remove_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::filesystem::path> all = {folder};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored))
    all.push_back(entry.path());
  // A folder precedes its contents.
  for (auto path = all.rbegin(); path != all.rend(); ++path)
    std::filesystem::remove(*path, ignored);
}

}  // namespace geores
