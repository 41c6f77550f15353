#include "geores/train/run/checkpoint_files.h"

#include <gtest/gtest.h>

#include "geores/base/file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

TEST(CheckpointFiles, TheNewestIsThereWhileTheNextOneIsWritten) {
  const TemporaryFolder folder;
  const auto newest = folder.path() / "newest", previous = folder.path() / "previous";
  const auto first = std::as_bytes(std::span("1", 1)), second = std::as_bytes(std::span("2", 1));
  SafetensorsWriter old;
  old.add("x", Dtype::u8, {1}, first);
  write_checkpoint(old, newest, previous, true);
  EXPECT_FALSE(fs::exists(previous));

  bool there = false;
  SafetensorsWriter next;
  next.add_source("x", Dtype::u8, {1}, [&](const ByteSink& sink) {
    there = read_file(newest) == old.serialize();
    sink(second);
  });
  write_checkpoint(next, newest, previous, true);
  EXPECT_TRUE(there);
  EXPECT_EQ(read_file(previous), old.serialize());
  EXPECT_EQ(read_file(newest), next.serialize());

  // A checkpoint that is not kept, and one that cannot be written.
  write_checkpoint(old, newest, previous, false);
  EXPECT_EQ(read_file(previous), old.serialize());
  SafetensorsWriter broken;
  broken.add_source("x", Dtype::u8, {1}, [](const ByteSink&) { throw std::runtime_error("gone"); });
  EXPECT_THROW(write_checkpoint(broken, newest, previous, true), std::runtime_error);
  EXPECT_EQ(read_file(newest), old.serialize());
}

}  // namespace
}  // namespace geores
