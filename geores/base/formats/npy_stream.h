// Writes an .npy file piece by piece, for arrays that are larger than memory.
//   NpyStream file("all__inputs.npy", Dtype::u8, {rows, 900});
//   for (...) file.write(bytes_of_a_row);
//   file.close();
// The file is complete after close(), which checks that all bytes of the shape were written. It
// is written in place: for a file that must appear at once, write into a folder that is renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "geores/base/dtype.h"
#include "geores/base/sha256.h"

namespace geores {

class NpyStream {
 public:
  NpyStream(const std::filesystem::path& path, Dtype dtype, const std::vector<int64_t>& shape);

  void write(std::span<const std::byte> bytes);
  void close();

  // Of the whole file, header included. After close().
  const std::string& sha256() const { return sha256_; }

 private:
  void put(std::span<const std::byte> bytes);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t missing_;  // bytes of the array that are not written yet
  Sha256 sum_;
  std::string sha256_;
};

}  // namespace geores
