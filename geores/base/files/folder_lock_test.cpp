#include "geores/base/files/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "geores/base/file.h"
#include "geores/base/files/temporary_file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

TEST(FolderLock, KeepsASecondWriterOutAndNamesTheHolder) {
  const TemporaryFolder folder;
  std::optional<FolderLock> first(folder.path());
  EXPECT_TRUE(first->works());
  const auto text = refusal([&] { FolderLock second(folder.path()); });
  EXPECT_TRUE(text.starts_with(
      fmt::format("[{}] is in use by process {} on ", folder.path().native(), ::getpid())))
      << text;
  first.reset();
  EXPECT_EQ(folder.file_count(), 0) << "no file remains";
  const FolderLock third(folder.path());
  EXPECT_TRUE(third.works());
}

TEST(FolderLock, EndsWithItsProcess) {
  const TemporaryFolder folder;
  const auto child = fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    ::_exit(0);  // as if killed: no destructor runs
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(folder.file_count(), 1);
  const FolderLock lock(folder.path());
  EXPECT_TRUE(lock.works());
}

TEST(TemporaryFiles, OfProcessesThatEndedAreRemoved) {
  const TemporaryFolder folder;
  const auto child = fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto write = [&](const std::string& name) {
    write_file_atomically(folder.path() / name, "x");
  };
  const auto is_there = [&](const std::string& name) {
    return std::filesystem::exists(folder.path() / name);
  };
  const auto ended = fmt::format(".geores-{}-0.tmp", child),
             running = fmt::format(".geores-{}-0.tmp", ::getppid()),
             earlier = fmt::format(".geores-{}-99999.tmp", ::getpid());
  for (const auto& name : {ended, running, earlier}) write(name);
  for (const auto* name : {".geores-x-0.tmp", ".geores-.tmp", "notes.tmp", "config.json"})
    write(name);
  remove_abandoned_files(folder.path());
  EXPECT_FALSE(is_there(ended));
  EXPECT_FALSE(is_there(earlier)) << "of a process that had the same id";
  for (const auto& name : {running, std::string(".geores-x-0.tmp"), std::string(".geores-.tmp"),
                           std::string("notes.tmp"), std::string("config.json")})
    EXPECT_TRUE(is_there(name)) << name;
  remove_abandoned_files(folder.path() / "absent");
}

}  // namespace
}  // namespace geores
