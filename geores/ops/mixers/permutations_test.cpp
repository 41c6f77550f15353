#include "geores/ops/mixers/permutations.h"

#include <gtest/gtest.h>

#include "geores/ops/mixers/constants.h"
#include "geores/ops/run/fused_check_test.h"

namespace geores {
namespace {

TEST(Permutations, TheirMixtureEqualsComposed) {
  torch::manual_seed(6);
  for (const int64_t n : {2, 3, 4, 5}) {
    const auto all = all_permutations(n).flatten(1);  // (n!, n²)
    expect_fused_equals_composed(
        {2 * random({2, 37, all.size(0)})},
        [&](const Tensors& t) {
          if (const auto fused = fused_permutation_mixture(t[0], n)) return Tensors{*fused};
          return Tensors{
              t[0].softmax(-1).matmul(all.to(t[0])).unflatten(-1, at::IntArrayRef{n, n})};
        },
        std::to_string(n) + " streams", 1e-5);
  }
}

}  // namespace
}  // namespace geores
