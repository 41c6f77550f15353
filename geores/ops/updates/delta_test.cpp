// The delta rule on wide streams against its definition: values and all gradients. Without a GPU
// there is no fused form.
#include "geores/ops/updates/delta.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "geores/ops/dense/norm.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

// Inputs: the weights of reading, x, β's logit with v, and a map as the sublayer.
Tensors delta_of(const Tensors& t) {
  auto delta = DeltaStreams::make(t[0], t[1]);
  const auto seen = delta ? delta->read() : t[0].matmul(t[1]);
  const auto y = torch::tanh(seen * t[3]);
  if (delta) return {seen, delta->write(y, t[2])};
  const auto k = normalize(y), beta = 2 * torch::sigmoid(t[2].slice(-1, 0, 1));
  const auto erased = t[1].matmul(k.unsqueeze(-1)).squeeze(-1);
  return {seen, t[1] + spread_to_streams(beta * (t[2].slice(-1, 1) - erased), k)};
}

TEST(Delta, EqualsComposed) {
  torch::manual_seed(4);
  struct Size {
    int64_t n, d, length;
  };
  for (const auto& [n, d, length] : {Size{2, 1, 3}, Size{2, 7, 5}, Size{4, 36, 3}, Size{3, 129, 2},
                                     Size{4, 513, 5}, Size{4, 768, 9}, Size{8, 1024, 1}})
    if (takes_large_sizes() || d <= 36)
      expect_fused_equals_composed(
          {random({n}), random({2, length, n, d}), random({2, length, 1 + n}), random({d})},
          delta_of, "n " + std::to_string(n) + " d " + std::to_string(d), 1e-4);
}

// The same with the norm and the projections before the sublayer. Inputs: as Reading, x, and a map
// as the sublayer.
Tensors normed_delta_of(const Tensors& t) {
  const auto branch = [&](const Tensor& read) {
    return torch::tanh(read.to(t[7].scalar_type()) * t[7]);
  };
  if (auto delta = DeltaStreams::make({.weight = t[0],
                                       .norm_weight = t[1],
                                       .beta = t[2],
                                       .beta_bias = t[3],
                                       .value = t[4],
                                       .value_bias = t[5]},
                                      t[6]))
    return {delta->read(), delta->write(branch(delta->read()))};
  const auto seen = t[0].matmul(t[6]), read = layer_norm(seen, t[1]), k = normalize(branch(read)),
             beta = 2 * torch::sigmoid(torch::nn::functional::linear(seen, t[2], t[3])),
             v = torch::nn::functional::linear(seen, t[4], t[5]),
             erased = t[6].matmul(k.unsqueeze(-1)).squeeze(-1);
  return {read, t[6] + spread_to_streams(beta * (v - erased), k)};
}

TEST(Delta, WithNormAndProjectionsEqualsComposed) {
  torch::manual_seed(7);
  struct Size {
    int64_t n, d, length;
  };
  for (const auto& [n, d, length] :
       {Size{2, 5, 3}, Size{4, 36, 5}, Size{3, 129, 4}, Size{4, 128, 37}, Size{4, 768, 19},
        Size{8, 1024, 3}, Size{4, 1028, 2}})
    if (takes_large_sizes() || d <= 36)
      expect_fused_equals_composed(
          {random({n}), random({d}), random({1, d}) / std::sqrt(d), random({1}),
           random({n, d}) / std::sqrt(d), random({n}), random({2, length, n, d}), random({d})},
          normed_delta_of, "n " + std::to_string(n) + " d " + std::to_string(d), 1e-4);
}

// A zero output of the sublayer has no direction; the result has no NaN.
TEST(Delta, WithoutADirectionEqualsComposed) {
  expect_fused_equals_composed(
      {random({4}), random({1, 2, 4, 12}), random({1, 2, 5}), torch::zeros({12}, torch::kFloat64)},
      [](const Tensors& t) {
        auto all = delta_of(t);
        for (const auto& input : t) all.push_back(input * 1);
        return all;
      },
      "no direction", 1e-4);
}

// Also without a write: the state then has only the gradient of the read.
TEST(Delta, ReadingAloneEqualsComposedAndASecondWriteIsRefused) {
  expect_fused_equals_composed(
      {random({4}), random({1, 3, 4, 12})},
      [](const Tensors& t) {
        const auto delta = DeltaStreams::make(t[0], t[1]);
        return Tensors{delta ? delta->read() : t[0].matmul(t[1])};
      },
      "reading alone", 1e-4);
  const auto x = torch::randn({1, 2, 4, 12}), y = torch::randn({1, 2, 12}),
             l = torch::randn({1, 2, 5}), weight = torch::randn({4});
  const auto on = [](const Tensor& t) { return has_gpu() ? t.to(gpu()) : t; };
  if (auto delta = DeltaStreams::make(on(weight), on(x))) {
    delta->write(on(y), on(l));
    EXPECT_THROW(delta->write(on(y), on(l)), std::exception);
  }
}

}  // namespace
}  // namespace geores
