#include "geores/base/sha256.h"

#include <gtest/gtest.h>

namespace geores {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256, GivesThePublishedValues) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesAreTheWhole) {
  const std::string text(300, 'x');
  for (const size_t cut : {1, 55, 56, 63, 64, 65, 128, 299}) {
    Sha256 hash;
    hash.add(std::string_view(text).substr(0, cut));
    hash.add(std::string_view(text).substr(cut));
    EXPECT_EQ(hash.hex(), sha256(text)) << cut;
  }
}

}  // namespace
}  // namespace geores
