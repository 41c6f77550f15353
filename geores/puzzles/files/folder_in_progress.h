// A folder that appears under its name only when all its files are written.
//   FolderInProgress folder("arc1");        refuses if arc1 exists already
//   folder.write("train/dataset.json", text);
//   folder.finish();
// The files are in arc1.partial-PID until then; an exception removes them, and so does the next attempt
// at arc1 after the process was killed.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "geores/base/formats/npy_stream.h"

namespace geores::puzzles {

class FolderInProgress {
 public:
  explicit FolderInProgress(std::filesystem::path target);
  FolderInProgress(const FolderInProgress&) = delete;
  FolderInProgress& operator=(const FolderInProgress&) = delete;
  ~FolderInProgress();

  // Names are relative; their folders are made.
  void write(const std::string& name, const std::string& text);
  void write(const std::string& name, const std::vector<int32_t>& values);
  // Rows of bytes: uint8 (rows, columns).
  void write(const std::string& name, std::span<const uint8_t> values, int64_t columns);
  NpyStream stream(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape);
  void close(const std::string& name, NpyStream& stream);  // and keeps its sum

  const std::map<std::string, std::string>& sums() const { return sums_; }  // SHA-256 of each file
  void finish();

 private:
  std::filesystem::path path_of(const std::string& name);

  std::filesystem::path target_, partial_;
  std::map<std::string, std::string> sums_;
  std::vector<std::filesystem::path> made_;  // in the order of their making
};

}  // namespace geores::puzzles
