// The recursive model against float64 dumps of TRM's public code.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "geores/base/file.h"
#include "lab/reference/verify.h"

namespace geores {
namespace {

class RecursiveGolden : public testing::TestWithParam<const char*> {
 protected:
  std::string name() const { return std::string(GetParam()) + ".safetensors"; }
  std::string path() const { return (std::filesystem::path(GEORES_GOLDEN_DIR) / name()).string(); }
};

TEST_P(RecursiveGolden, EveryGroupAgrees) {
  const auto result = verify_dump(Safetensors::load(path()), name());
  EXPECT_EQ(result.groups.size(), 14u);
  for (const auto& group : result.groups) {
    EXPECT_LT(group.error, 1e-9) << group.group << ", worst: " << group.worst;
    EXPECT_LE(group.limit, group.group == "after" || group.group == "ema" ? 1e-7 : 1e-9);
  }
  EXPECT_TRUE(result.passed());
}

// A dump that was changed in one byte of one tensor is refused by the group it belongs to.
TEST_P(RecursiveGolden, SeesAChangedNumber) {
  const auto original = Safetensors::load(path());
  for (const auto* tensor :
       {"out/z_L", "grad/puzzle_emb.rows", "after/lm_head.weight", "out/steps"}) {
    auto bytes = read_file(path());
    const auto& view = original.at(tensor);
    const auto* begin = original.at(original.names().front()).bytes.data();
    size_t total = 0;
    for (const auto& each : original.names()) total += original.at(each).bytes.size();
    const auto start = bytes.size() - total + static_cast<size_t>(view.bytes.data() - begin);
    const bool counts = view.dtype == Dtype::i64;
    bytes[start + (counts ? 0 : 6)] ^= std::byte{0x04};
    const auto result = verify_dump(Safetensors::parse(bytes, name()), name());
    EXPECT_FALSE(result.passed()) << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecursiveGolden,
                         testing::Values("trm_none", "trm_mlp_t", "trm_jpmhc", "trm_edelta"),
                         [](const auto& dump) { return std::string(dump.param); });

}  // namespace
}  // namespace geores
