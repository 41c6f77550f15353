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
        [&](const Tensors& t) { return Tensors{all_permutations_mixture(t[0], all.to(t[0]))}; },
        std::to_string(n) + " streams", 1e-5);
  }
}

TEST(Permutations, TheirMixtureIsTheWeightedSum) {
  torch::manual_seed(6);
  const auto all = all_permutations(3);
  const auto logits = torch::randn({2, 5, 6}, torch::kFloat64);
  const auto mixture = all_permutations_mixture(logits, all.flatten(1));
  auto wanted = torch::zeros_like(mixture);
  for (int64_t m = 0; m < 6; ++m)
    wanted += logits.softmax(-1).select(-1, m).view({2, 5, 1, 1}) * all[m];
  EXPECT_LT((mixture - wanted).abs().max().item<double>(), 1e-14);
}

}  // namespace
}  // namespace geores
