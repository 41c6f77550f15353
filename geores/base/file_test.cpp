#include "geores/base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// Sets a limit of this process for as long as the object lives.
class ResourceLimit {
 public:
  ResourceLimit(int resource, rlim_t amount) : resource_(resource) {
    ::getrlimit(resource_, &old_);
    const rlimit limit{amount, old_.rlim_max};
    ::setrlimit(resource_, &limit);
  }
  ~ResourceLimit() { ::setrlimit(resource_, &old_); }

 private:
  int resource_;
  rlimit old_{};
};

// A disk without space beyond `size` bytes: write() is cut short and then fails.
class FullDisk {
 public:
  explicit FullDisk(rlim_t size)
      : old_handler_(std::signal(SIGXFSZ, SIG_IGN)), limit_(RLIMIT_FSIZE, size) {}
  ~FullDisk() { std::signal(SIGXFSZ, old_handler_); }

 private:
  void (*old_handler_)(int);
  ResourceLimit limit_;
};

// The superuser may read everything, so a test of permissions runs as another user for a while.
class OrdinaryUser {
 public:
  OrdinaryUser() : changed_(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~OrdinaryUser() {
    if (changed_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool changed_;
};

TEST(File, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 1'000'003}) {
    std::mt19937_64 random(size);
    std::vector<std::byte> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    write_file_atomically(folder.path() / "x", bytes);
    EXPECT_EQ(read_file(folder.path() / "x"), bytes);
  }
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(File, TextKeepsNulBytes) {
  const TemporaryFolder folder;
  const std::string text("a\0b\n", 4);
  write_file_atomically(folder.path() / "x", text);
  EXPECT_EQ(read_text_file(folder.path() / "x"), text);
}

TEST(File, APipeIsReadToItsEnd) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    std::FILE* pipe = std::fopen(path.c_str(), "w");
    std::fputs(std::string(200'000, 'x').c_str(), pipe);
    std::fclose(pipe);
  });
  EXPECT_EQ(read_text_file(path), std::string(200'000, 'x'));
  writer.join();
}

TEST(File, ReadingAMissingFileNamesIt) {
  EXPECT_EQ(refusal([] { read_file("/nowhere/x.npy"); }),
            "[/nowhere/x.npy] cannot be read: No such file or directory");
}

TEST(File, ReadingADirectoryNamesIt) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal([&] { read_file(folder.path()); }),
            "[" + folder.path().string() + "] cannot be read: it is a directory");
}

TEST(File, ReadingADeviceThatNeverEndsIsRefused) {
  EXPECT_EQ(refusal([] { read_file("/dev/zero"); }),
            "[/dev/zero] cannot be read: it is neither a regular file nor a pipe");
}

TEST(File, ReadingWithoutPermissionNamesTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "secret";
  write_file_atomically(path, "x");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(path, fs::perms::none);
  const OrdinaryUser user;
  EXPECT_EQ(refusal([&] { read_file(path); }),
            "[" + path.string() + "] cannot be read: Permission denied");
}

#ifndef __SANITIZE_ADDRESS__  // which needs terabytes of address space for itself
TEST(File, ReadingMoreThanTheMemoryHoldsIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "sparse";
  write_file_atomically(path, "");
  fs::resize_file(path, std::uintmax_t{1} << 33);  // a file of 8 GiB of holes
  const ResourceLimit memory(RLIMIT_AS, rlim_t{1} << 31);
  EXPECT_EQ(refusal([&] { read_file(path); }),
            "[" + path.string() + "] cannot be read: 8589934593 bytes do not fit in memory");
}
#endif

TEST(File, ANameWithANewlineStillGivesOneLine) {
  EXPECT_EQ(refusal([] { read_file("/nowhere/a\nb\xff"); }),
            "[/nowhere/a\\nb\\xff] cannot be read: No such file or directory");
}

TEST(File, WritingIntoAMissingFolderNamesTheFile) {
  EXPECT_EQ(refusal([] { write_file_atomically("/nowhere/x.npy", "x"); }),
            "[/nowhere/x.npy] cannot be written: No such file or directory");
}

TEST(File, WritingOverADirectoryIsRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal([&] { write_file_atomically(folder.path(), "x"); }),
            "[" + folder.path().string() + "] cannot be written: it is a directory");
}

TEST(File, WritingOverADeviceIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "link";
  fs::create_symlink("/dev/null", path);
  EXPECT_EQ(refusal([&] { write_file_atomically(path, "x"); }),
            "[" + path.string() + "] cannot be written: it is not a regular file");
}

TEST(File, WritingWithoutPermissionNamesTheFileAndLeavesItAlone) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x";
  write_file_atomically(path, "old");
  fs::permissions(folder.path(), fs::perms(0555));
  {
    const OrdinaryUser user;
    EXPECT_EQ(refusal([&] { write_file_atomically(path, "new"); }),
              "[" + path.string() + "] cannot be written: Permission denied");
  }
  fs::permissions(folder.path(), fs::perms(0755));
  EXPECT_EQ(read_text_file(path), "old");
}

TEST(File, AFullDiskLeavesTheOldFileAndNoOther) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  write_file_atomically(path, "old");
  {
    const FullDisk disk(4096);
    EXPECT_EQ(refusal([&] { write_file_atomically(path, std::string(100'000, 'x')); }),
              "[" + path.string() + "] cannot be written: File too large");
  }
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(File, ASourceThatThrowsLeavesTheOldFileAndNoOther) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x";
  write_file_atomically(path, "old");
  EXPECT_THROW(write_file_atomically(path,
                                     [](const ByteSink& sink) {
                                       sink(std::as_bytes(std::span("new", 3)));
                                       throw std::runtime_error("no more");
                                     }),
               std::runtime_error);
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(File, AFullDiskLeavesNothingOfANewFile) {
  const TemporaryFolder folder;
  {
    const FullDisk disk(4096);
    EXPECT_NE(refusal([&] { write_file_atomically(folder.path() / "x", std::string(9999, 'x')); }),
              "");
  }
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(File, AKilledWriterLeavesTheOldContentOrTheNewOne) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x";
  const std::string contents[] = {std::string(3'000'000, 'a'), std::string(2'000'000, 'b')};
  write_file_atomically(path, contents[0]);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) write_file_atomically(path, contents[i % 2]);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3 + round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto found = read_text_file(path);
    ASSERT_TRUE(found == contents[0] || found == contents[1]) << found.size() << " bytes";
  }
}

TEST(File, AReplacedFileKeepsItsPermissions) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x";
  write_file_atomically(path, "old");
  fs::permissions(path, fs::perms(0640));
  write_file_atomically(path, "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
}

TEST(File, ASymbolicLinkStaysAndItsTargetIsReplaced) {
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "target", "old");
  fs::create_symlink("target", folder.path() / "link");
  write_file_atomically(folder.path() / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(read_text_file(folder.path() / "target"), "new");
}

TEST(File, ANameWithoutAFolderIsWrittenHere) {
  const TemporaryFolder folder;
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  write_file_atomically("x", "text");
  fs::current_path(before);
  EXPECT_EQ(read_text_file(folder.path() / "x"), "text");
}

TEST(File, TheLongestNameCanBeWritten) {
  const TemporaryFolder folder;
  const auto path = folder.path() / std::string(255, 'n');
  write_file_atomically(path, "text");
  EXPECT_EQ(read_text_file(path), "text");
}

TEST(File, ThreadsThatWriteOneFileDoNotMixTheirContents) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x";
  std::vector<std::thread> writers;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&path, c] {
      for (int i = 0; i < 20; ++i) write_file_atomically(path, std::string(100'000, c));
    });
  }
  for (auto& writer : writers) writer.join();
  const auto text = read_text_file(path);
  EXPECT_EQ(text, std::string(100'000, text.at(0)));
  EXPECT_EQ(folder.file_count(), 1);
}

}  // namespace
}  // namespace geores
