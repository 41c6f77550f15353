// A file of little-endian uint16 ids, as nanoGPT writes them, mapped into memory read-only: a file
// of 20 GB costs no memory of its own.
#pragma once

#include <filesystem>
#include <span>

#include "geores/base/files/mapped_file.h"
#include "geores/text/tokenizer.h"

namespace geores {

class MappedIds {
 public:
  // Refuses a file that is empty or whose number of bytes is odd.
  explicit MappedIds(const std::filesystem::path& path);

  std::span<const Id> ids() const { return ids_; }
  const std::filesystem::path& path() const { return path_; }

  // Refuses if the file is not as long as it was when it was opened. The rest of the last page
  // of a file that has shrunk reads as zeros, so long reads should check from time to time.
  void require_unchanged() const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::span<const Id> ids_;
};

}  // namespace geores
