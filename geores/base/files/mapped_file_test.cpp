#include "geores/base/files/mapped_file.h"

#include <gtest/gtest.h>

#include "geores/base/file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

TEST(MappedFile, HoldsTheBytesOfTheFileAlsoAfterAMove) {
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "a", "geometry");
  write_file_atomically(folder.path() / "empty", "");
  MappedFile file(folder.path() / "a");
  MappedFile moved(std::move(file));
  EXPECT_EQ(to_text(moved.bytes()), "geometry");
  MappedFile empty(folder.path() / "empty");
  EXPECT_TRUE(empty.bytes().empty());
  empty = std::move(moved);
  EXPECT_EQ(to_text(empty.bytes()), "geometry");
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  const auto missing = (folder.path() / "missing").string();
  EXPECT_EQ(refusal([&] { MappedFile{missing}; }),
            "[" + missing + "] cannot be read: No such file or directory");
  EXPECT_EQ(refusal([&] { MappedFile{folder.path()}; }),
            "[" + folder.path().string() + "] cannot be read: it is not a regular file");
}

}  // namespace
}  // namespace geores
