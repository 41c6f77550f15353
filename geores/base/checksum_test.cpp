#include "geores/base/checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "geores/testing/testing.h"

namespace geores {
namespace {

std::string checksum_of(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.hex();
}

// `printf abc | xxhsum -H3` and the like, xxhsum 0.8.1.
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum_of({}), "2d06800538d394c2");
  EXPECT_EQ(checksum_of(to_bytes("abc")), "78af5f94892f3950");
  EXPECT_EQ(checksum_of(to_bytes(std::string(1000, 'x'))), "c0a4877b962cba82");
}

TEST(Checksum, PiecesGiveTheSameAsTheWholeAndEveryBitCounts) {
  auto bytes = to_bytes(std::string(5000, 'a'));
  const auto whole = checksum_of(bytes);
  for (const std::size_t piece : {1, 7, 256, 1023, 4999}) {
    Checksum sum;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      sum.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    EXPECT_EQ(sum.hex(), whole) << piece;
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 61) {
    const auto flip = std::byte{1} << (bit % 8);
    bytes[bit / 8] ^= flip;
    EXPECT_NE(checksum_of(bytes), whole) << bit;
    bytes[bit / 8] ^= flip;
  }
}

}  // namespace
}  // namespace geores
