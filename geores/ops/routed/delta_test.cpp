// The delta rule on wide streams against its definition: values and all gradients. Without a GPU
// there is no fused form.
#include "geores/ops/routed/delta.h"

#include <gtest/gtest.h>

#include <string>

#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

// Inputs: the weights of reading, x, β, v, and a map that stands for the sublayer.
Tensors delta_of(const Tensors& t) {
  const auto summed = fused_stream_sum(t[0], t[1]);
  const auto x = summed ? summed->skip : t[1];
  const auto seen = summed ? summed->read : t[0].matmul(x);
  const auto y = torch::tanh(seen * t[4]);
  if (const auto fused = fused_delta_write(x, y, t[2], t[3])) return {seen, *fused};
  const auto k = normalize(y);
  const auto erased = x.matmul(k.unsqueeze(-1)).squeeze(-1);
  return {seen, x + spread_to_streams(t[2] * (t[3] - erased), k)};
}

TEST(Delta, EqualsComposed) {
  torch::manual_seed(4);
  struct Size {
    int64_t n, d, length;
  };
  for (const auto& [n, d, length] : {Size{2, 1, 3}, Size{2, 7, 5}, Size{4, 36, 3}, Size{3, 129, 2},
                                     Size{4, 513, 5}, Size{4, 768, 9}, Size{8, 1024, 1}})
    if (torch::cuda::is_available() || d <= 36)
      expect_fused_equals_composed({random({n}), random({2, length, n, d}), random({2, length, 1}),
                                    random({2, length, n}), random({d})},
                                   delta_of, "n " + std::to_string(n) + " d " + std::to_string(d),
                                   1e-4);
}

// Where the sublayer's answer is zero there is no direction, and nothing is NaN.
TEST(Delta, WithoutADirectionEqualsComposed) {
  expect_fused_equals_composed(
      {random({4}), random({1, 2, 4, 12}), random({1, 2, 1}), random({1, 2, 4}),
       torch::zeros({12}, torch::kFloat64)},
      [](const Tensors& t) {
        auto all = delta_of(t);
        for (const auto& input : t) all.push_back(input * 1);
        return all;
      },
      "no direction", 1e-4);
}

}  // namespace
}  // namespace geores
