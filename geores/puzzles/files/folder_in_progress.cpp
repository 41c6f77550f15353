#include "geores/puzzles/files/folder_in_progress.h"

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/files/temporary_file.h"
#include "geores/base/formats/npy.h"

namespace geores::puzzles {
namespace {
namespace fs = std::filesystem;
}

FolderInProgress::FolderInProgress(fs::path target) : target_(std::move(target)) {
  require(!target_.empty(), "data", "the folder needs a name");
  if (!target_.has_filename()) target_ = target_.parent_path();  // "arc1/" is "arc1"
  require(!fs::exists(target_), target_.native(),
          "exists already; choose another folder or remove it");
  const auto parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  require(fs::is_directory(parent), parent.native(), "is not a folder");
  remove_abandoned_folders(target_);
  partial_ = partial_folder(target_);
  std::error_code problem;
  fs::create_directory(partial_, problem);
  require(!problem, partial_.native(), "cannot be made: {}", problem.message());
  made_.push_back(partial_);
}

FolderInProgress::~FolderInProgress() {
  std::error_code ignored;
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) fs::remove(*path, ignored);
}

fs::path FolderInProgress::path_of(const std::string& name) {
  const auto path = partial_ / name;
  std::error_code problem;
  if (fs::create_directory(path.parent_path(), problem)) made_.push_back(path.parent_path());
  require(!problem, path.parent_path().native(), "cannot be made: {}", problem.message());
  made_.push_back(path);
  return path;
}

void FolderInProgress::write(const std::string& name, const std::string& text) {
  write_file_atomically(path_of(name), text);
  sums_[name] = sha256(text);
}

void FolderInProgress::write(const std::string& name, const std::vector<int32_t>& values) {
  auto file = stream(name, Dtype::i32, {static_cast<int64_t>(values.size())});
  file.write(std::as_bytes(std::span(values)));
  close(name, file);
}

void FolderInProgress::write(const std::string& name, std::span<const uint8_t> values,
                             int64_t columns) {
  auto file = stream(name, Dtype::u8, {static_cast<int64_t>(values.size()) / columns, columns});
  file.write(std::as_bytes(values));
  close(name, file);
}

NpyStream FolderInProgress::stream(const std::string& name, Dtype dtype,
                                   const std::vector<int64_t>& shape) {
  return {path_of(name), dtype, shape};
}

void FolderInProgress::close(const std::string& name, NpyStream& stream) {
  stream.close();
  sums_[name] = stream.sha256();
}

void FolderInProgress::finish() {
  std::error_code problem;
  fs::rename(partial_, target_, problem);
  require(!problem, target_.native(), "cannot be written: {}", problem.message());
  made_.clear();
}

}  // namespace geores::puzzles
