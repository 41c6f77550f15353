// Temporary files of write_file_atomically(), folders that are not finished yet, and the removal of those
// that a killed process left.
#pragma once

#include <filesystem>

namespace geores {

// Creates a new empty file in the folder and sets `path` to it. The name does not contain the name
// of the final file, which may already have the longest allowed length. Returns a descriptor, or -1
// with errno set.
int create_temporary_file(const std::filesystem::path& folder, std::filesystem::path& path);

// Removes the temporary files of processes that are not running any more. Files with the id of this
// process count as left by an earlier one that had the same id, as often happens in containers: call
// it before this process writes into the folder. Problems are ignored.
void remove_abandoned_files(const std::filesystem::path& folder);

// TARGET.partial-PROCESS: the folder that this process makes, until it is renamed to TARGET.
std::filesystem::path partial_folder(const std::filesystem::path& target);

// The same as remove_abandoned_files() for the partial folders of one target.
void remove_abandoned_folders(const std::filesystem::path& target);

}  // namespace geores
