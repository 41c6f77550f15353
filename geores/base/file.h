// Whole files in, whole files out.
//   const auto bytes = read_file("x.npy");
//   write_file_atomically("runs/a/result.json", text);
// Errors are one line: [runs/a/result.json] cannot be written: No space left on device
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace geores {

// Reads regular files and pipes; refuses directories and devices.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text_file(const std::filesystem::path& path);

// At every moment, also after a kill or a power cut, the path holds either the old content or all
// of the new. The bytes go to a temporary file in the same folder; the file is flushed to the disk
// and renamed. On failure the temporary file is removed and the old file stays as it was. (One
// exception: if flushing the folder fails after the rename, the new content is in place, and the
// error says so.) A file that is replaced keeps its permissions; a symbolic link stays, and its
// target is replaced. Only regular files can be replaced: renaming over /dev/null would destroy it.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Content that need not be in memory as a whole: it is given to the sink piece by piece. If the source
// throws, the old file stays as it was, too.
using ByteSink = std::function<void(std::span<const std::byte>)>;
using ByteSource = std::function<void(const ByteSink&)>;
void write_file_atomically(const std::filesystem::path& path, const ByteSource& content);

// Bytes that are known only when all others have been written: they replace as many at `offset`.
struct Amendment {
  std::size_t offset = 0;
  std::string bytes;
};
void write_file_atomically(const std::filesystem::path& path, const ByteSource& content,
                           const std::function<Amendment()>& amendment);

}  // namespace geores
