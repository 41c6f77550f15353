// Holds a folder for one writer. While a FolderLock lives, no other process gets one for the same
// folder, and no other thread of this process; when the process ends, in whatever way, the folder is
// free again.
//   const FolderLock lock("runs/a");
//   -> [runs/a] is in use by process 4711 on node7: wait until it has ended, or stop it
#pragma once

#include <filesystem>

namespace geores {

class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);  // which must exist
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // False where the file system has no locks: no process is then excluded.
  bool works() const { return works_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool works_ = true;
};

}  // namespace geores
