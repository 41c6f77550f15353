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

// Locks the folder of a run for this process and creates it unless `must_exist`. Removes temporary
// files of killed processes and completes their interrupted work. A new run in a data folder is
// refused.
std::unique_ptr<FolderLock> take_run_folder(const std::filesystem::path& run, bool must_exist,
                                            const std::function<void(const std::string&)>& notice);

// For a run of any kind.
bool has_checkpoint(const std::filesystem::path& run);
void require_checkpoint(const std::filesystem::path& run);

std::filesystem::path starting_folder(const std::filesystem::path& run);

void make_starting_folder(const std::filesystem::path& run);  // an empty one
void remove_starting_folder(const std::filesystem::path& run);

// Replaces the old run's files by those of the starting folder. Files that no run writes stay.
void replace_run(const std::filesystem::path& run);

// Whether a new run has not replaced the old one yet: it is starting, or its process was killed.
bool is_being_replaced(const std::filesystem::path& run);

// Completes the work of a killed process: finishes a replacement that had begun, removes a new run
// that has no checkpoint.
void finish_replacing(const std::filesystem::path& run);

}  // namespace geores
