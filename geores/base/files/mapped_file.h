// A file's bytes without reading them: the pages of the file are loaded when they are touched, and
// several processes share them. For data sets that are larger than memory.
//   const MappedFile file("all__inputs.npy");
//   const auto first = file.bytes()[0];
// The file must not be shortened while it is mapped: reading a page beyond its end ends the process with
// one line (shrunk_files.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace geores {

class MappedFile {
 public:
  // Regular files only. [path] cannot be read: No such file or directory
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace geores
