// A new run is written into RUN/.starting until it has its first checkpoint. Only then do its files
// replace those of the run that was in the folder. A process that is killed at any moment leaves the
// old run whole, or the new one, or files from which finish_replacing() makes the new one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "geores/base/files/folder_lock.h"

namespace geores {

// Makes the folder of a run this process's own until the lock goes: makes it where `must_exist` does
// not ask for it, removes temporary files of killed processes and finishes what they left half done.
// A new run in a folder of data is refused.
std::unique_ptr<FolderLock> take_run_folder(const std::filesystem::path& run, bool must_exist,
                                            const std::function<void(const std::string&)>& notice);

// Of a run of any kind.
bool has_checkpoint(const std::filesystem::path& run);
void require_checkpoint(const std::filesystem::path& run);

std::filesystem::path starting_folder(const std::filesystem::path& run);

void make_starting_folder(const std::filesystem::path& run);  // an empty one
void remove_starting_folder(const std::filesystem::path& run);

// Puts the files of the starting folder in the place of the old run's. Files that no run writes stay.
void replace_run(const std::filesystem::path& run);

// A new run has not taken its place yet: it is starting, or its process was killed.
bool is_being_replaced(const std::filesystem::path& run);

// Does what a killed process left: goes on with a replacement that had begun, removes a new run that
// has no checkpoint.
void finish_replacing(const std::filesystem::path& run);

}  // namespace geores
