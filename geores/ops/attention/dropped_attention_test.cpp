#include "geores/ops/attention/dropped_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/testing/gradient_check.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

Dropout dropping(const Tensor& like, int64_t step, int64_t first_row) {
  return {.rate = 0.3,
          .seed = 7,
          .step = torch::full({1}, step, like.options().dtype(torch::kInt64).requires_grad(false)),
          .first_row = first_row};
}

// The definition, row by row, with a mask computed independently.
Tensor softmax_by_definition(const Tensor& scores, double scale, bool causal,
                             const Dropout& dropout, int64_t site) {
  const auto length = scores.size(-1);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < length; ++t) {
    const auto seen = causal ? t + 1 : length;
    const auto powers = (scores.select(2, t).slice(-1, 0, seen) * scale).exp();
    rows.push_back(
        torch::constant_pad_nd(powers / powers.sum(-1, /*keepdim=*/true), {0, length - seen}));
  }
  return composed_dropped(torch::stack(rows, 2), dropout, site);
}

TEST(DroppedAttention, SoftmaxIsItsDefinition) {
  torch::manual_seed(1);
  for (const auto& device : devices()) {
    for (const bool causal : {true, false})
      for (const int64_t length : {1, 5, 33, 64})
        for (const auto& [step, first_row, site] :
             {std::tuple<int64_t, int64_t, int64_t>{5, 2, 9}, {0, 0, 1}, {4999, 70, 16}}) {
          const auto scores = random({2, 3, length, length}).to(device).requires_grad_(true);
          const auto dropout = dropping(scores, step, first_row);
          const auto cotangent = random({2, 3, length, length}).to(device);
          const auto both = [&](const Tensor& y) {
            return std::pair(y.detach(),
                             torch::autograd::grad({(y * cotangent).sum()}, {scores})[0]);
          };
          const auto [is, gradient] = both(dropped_softmax(scores, 0.4, causal, dropout, site));
          const auto [wanted, gradient_wanted] =
              both(softmax_by_definition(scores, 0.4, causal, dropout, site));
          EXPECT_TRUE(torch::equal(is == 0, wanted == 0)) << device << " " << length;
          EXPECT_LT((is - wanted).abs().max().item<double>(), 1e-13) << device << " " << length;
          EXPECT_LT((gradient - gradient_wanted).abs().max().item<double>(), 1e-13)
              << device << " " << length;
        }
  }
}

TEST(DroppedAttention, SoftmaxOnAGpuEqualsComposed) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(2);
  for (const bool causal : {true, false})
    for (const int64_t length :
         {1, 7, 32, 33, 64, 130, 132, 255, 256, 257, 511, 512, 1023, 1024, 1025})
      if (length <= 132 || takes_large_sizes())
        expect_equal_on(
            gpu(), {3 * random({2, 2, length, length})},
            [&](const Tensors& t) {
              return Tensors{dropped_softmax(t[0], 0.4, causal, dropping(t[0], 5, 3), 9)};
            },
            "softmax " + std::to_string(length), 2e-5);
}

TEST(DroppedAttention, SoftmaxInBfloat16OnAGpuIsThatOfItsScores) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(3);
  for (const int64_t length : {7, 64, 255, 256, 1024}) {
    if (length > 64 && !takes_large_sizes()) continue;
    const auto scores = random({2, 2, length, length}).to(gpu(), torch::kBFloat16);
    const auto cotangent = random({2, 2, length, length}).to(gpu(), torch::kBFloat16);
    const auto run = [&](torch::ScalarType type, Form form) {
      const ExecutionScope scope(form);
      const auto x = scores.to(type).detach().requires_grad_(true);
      const auto y = dropped_softmax(x, 0.4, true, dropping(x, 5, 3), 9);
      const auto gradient = torch::autograd::grad({(y * cotangent.to(type)).sum()}, {x})[0];
      return std::pair(y.detach().to(torch::kFloat64), gradient.to(torch::kFloat64));
    };
    const auto [is, gradient] = run(torch::kBFloat16, Form::fused);
    const auto [wanted, gradient_wanted] = run(torch::kFloat64, Form::composed);
    EXPECT_TRUE(torch::equal(is == 0, wanted == 0)) << length;
    EXPECT_TRUE(torch::allclose(is, wanted, 1.0 / 128, 1e-9)) << length;
    EXPECT_LT(((gradient - gradient_wanted).norm() / gradient_wanted.norm()).item<double>(), 0.01)
        << length;
  }
}

TEST(DroppedAttention, GradientsAreThoseOfCentralDifferences) {
  torch::manual_seed(4);
  for (const auto& device : devices()) {
    for (const bool causal : {true, false}) {
      const auto leaf = [&] { return random({2, 2, 9, 4}).to(device).requires_grad_(true); };
      const auto q = leaf(), k = leaf(), v = leaf();
      const auto dropout = dropping(q, 5, 3);
      const auto check = check_gradients(
          [&] {
            return dropped_attention({q, k, v}, causal, dropout, 9);
          },
          {{"q", q}, {"k", k}, {"v", v}});
      EXPECT_LT(check.error, 1e-7) << device << " " << causal << " " << check.worst;
    }
  }
}

// Parts of a batch drop the same elements as the whole batch.
TEST(DroppedAttention, PartsOfABatchAreThatPartOfTheWhole) {
  torch::manual_seed(5);
  const auto q = random({4, 2, 7, 6}), k = random({4, 2, 7, 6}), v = random({4, 2, 7, 6});
  const auto whole = dropped_attention({q, k, v}, true, dropping(q, 5, 0), 9);
  const auto part = [&](const Tensor& x) { return x.slice(0, 3, 4); };
  EXPECT_TRUE(torch::allclose(
      dropped_attention({part(q), part(k), part(v)}, true, dropping(q, 5, 3), 9), part(whole)));
}

TEST(DroppedAttention, SaysWhyItsKernelDoesNotRun) {
  Explanation explanation;
  auto asked = execution();
  asked.explanation = &explanation;
  const ExecutionScope scope(asked);
  const auto scores = random({1, 1, 3, 3});
  dropped_softmax(scores, 1, true, dropping(scores, 1, 0), 2);
  ASSERT_FALSE(explanation.lines().empty());
  EXPECT_EQ(explanation.lines()[0].operation, "dropped_softmax");
  EXPECT_EQ(explanation.lines()[0].missing, "a GPU");
  EXPECT_EQ(refusal([&] { dropped_softmax(scores[0], 1, true, dropping(scores, 1, 0), 2); }),
            "[dropped_softmax] scores of 3 axes are not (batch, heads, positions, positions)");
}

}  // namespace
}  // namespace geores
