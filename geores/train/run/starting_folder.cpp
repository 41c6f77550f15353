#include "geores/train/run/starting_folder.h"

#include <system_error>
#include <vector>

#include "geores/base/error.h"
#include "geores/base/files/temporary_file.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// All files that a run, or a command that reads one, writes into its folder.
constexpr const char* kFilesOfARun[] = {"config.json",
                                        "model.json",
                                        "metrics.jsonl",
                                        "diagnostics.jsonl",
                                        "checkpoint.safetensors",
                                        "checkpoint.previous.safetensors",
                                        "best.safetensors",
                                        "result.json",
                                        "mixers.safetensors",
                                        "tokenizer.json",
                                        "tokenizer.model"};

// Prepared text, bare files of ids, a set of puzzles. Some of their files have the same names as a
// run's.
constexpr const char* kFilesOfData[] = {"data.json", "train.bin", "val.bin", "geores.json"};

// The starting folder gets this name once the old run's files are removed.
fs::path replacing_folder(const fs::path& run) { return run / ".replacing"; }

std::vector<fs::path> files_in(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) files.push_back(entry.path());
  return files;
}

void check(const std::error_code& error, const fs::path& path) {
  require(!error, path.native(), "cannot be replaced: {}", error.message());
}

void move_new_files(const fs::path& run) {
  std::error_code error;
  for (const auto& file : files_in(replacing_folder(run))) {
    fs::rename(file, run / file.filename(), error);
    check(error, run / file.filename());
  }
  fs::remove(replacing_folder(run), error);
}

}  // namespace

std::unique_ptr<FolderLock> take_run_folder(const fs::path& run, bool must_exist,
                                            const std::function<void(const std::string&)>& notice) {
  std::error_code error;
  require(!must_exist || fs::is_directory(run, error), "train", "{} holds no run to resume",
          run.native());
  fs::create_directories(run, error);
  require(!error, "train", "cannot create {}: {}", run.native(), error.message());
  for (const auto* name : kFilesOfData)
    require(must_exist || !fs::exists(run / name), "train",
            "{} holds {}: it is a folder of data; give the run one of its own", run.native(), name);
  auto lock = std::make_unique<FolderLock>(run);
  if (!lock->works() && notice)
    notice(fmt::format("{} cannot be locked: make sure that no other process trains there",
                       run.native()));
  remove_abandoned_files(run);
  finish_replacing(run);
  return lock;
}

bool has_checkpoint(const fs::path& run) {
  return fs::exists(run / "checkpoint.safetensors") ||
         fs::exists(run / "checkpoint.previous.safetensors");
}

void require_checkpoint(const fs::path& run) {
  require(has_checkpoint(run), "train",
          "{} has no checkpoint to resume from; --overwrite with --out begins it again",
          run.native());
}

fs::path starting_folder(const fs::path& run) { return run / ".starting"; }

void make_starting_folder(const fs::path& run) {
  remove_starting_folder(run);
  std::error_code error;
  fs::create_directory(starting_folder(run), error);
  require(!error, "train", "cannot create {}: {}", starting_folder(run).string(), error.message());
}

void remove_starting_folder(const fs::path& run) {
  std::error_code ignored;
  for (const auto& file : files_in(starting_folder(run))) fs::remove(file, ignored);
  fs::remove(starting_folder(run), ignored);
}

void replace_run(const fs::path& run) {
  std::error_code error;
  for (const auto* name : kFilesOfARun) {
    fs::remove(run / name, error);
    check(error, run / name);
  }
  fs::rename(starting_folder(run), replacing_folder(run), error);
  check(error, run);
  move_new_files(run);
}

bool is_being_replaced(const fs::path& run) {
  return fs::exists(replacing_folder(run)) || fs::exists(starting_folder(run));
}

void finish_replacing(const fs::path& run) {
  if (fs::exists(replacing_folder(run))) move_new_files(run);
  if (fs::exists(starting_folder(run) / "checkpoint.safetensors"))
    replace_run(run);
  else
    remove_starting_folder(run);
}

}  // namespace geores
