// JPmHC's softmax routes of long rows against their composed definition, values and all gradients.
// Without a GPU both sides are composed.
#include "geores/ops/routed/softmax_routes.h"

#include <gtest/gtest.h>

#include <string>

#include "geores/ops/dense/norm.h"
#include "geores/ops/run/fused_check_test.h"

namespace geores {
namespace {

struct SoftmaxCase {
  int64_t rows, width, n;
  bool layer, bias, mixes;
  CayleyRouting routing{};
};

// Inputs: x, the generator's weight and bias, the norm's weight and bias.
Tensors softmax_routes_of(const Tensors& t, const SoftmaxCase& c) {
  const NormSpec norm = c.layer ? NormSpec{.layer = true, .weight = t[3], .bias = t[4]}
                                : NormSpec{.layer = false, .epsilon = 1e-5};
  const auto bias = c.bias ? t[2] : Tensor();
  // Outputs that a case does not use enter the sum too.
  const auto result = [&](const Routes& routes, const Tensor& skip) {
    Tensors all = {routes.read, routes.write, skip * 2, t[2] * 1, t[3] * 1, t[4] * 1};
    if (c.mixes) all.push_back(routes.res);
    return all;
  };
  if (const auto made = wide_softmax_routes(t[0], {norm, t[1], bias}, c.n, c.routing))
    return result(made->routes, made->skip);
  auto raw = torch::matmul(normalized(t[0], norm), t[1].t());
  if (bias.defined()) raw = raw + bias;
  if (c.mixes) return result(cayley_routes(raw, c.n, c.routing), t[0]);
  const auto both = raw.unflatten(-1, std::vector<int64_t>{2, c.n, c.n}) / c.routing.temperature;
  return result({.res = {},
                 .read = both.select(-3, 0).softmax(-1).mean(-2),
                 .write = both.select(-3, 1).softmax(-2).sum(-1)},
                t[0]);
}

TEST(SoftmaxRoutes, EqualComposed) {
  torch::manual_seed(5);
  const CayleyRouting warm{.temperature = 0.7, .alpha = 0.3, .iterations = 3},
      exact{.alpha = 0.4, .exact = true};
  for (const auto& c :
       {SoftmaxCase{5, 7, 2, true, true, true}, SoftmaxCase{17, 130, 3, false, false, true, warm},
        SoftmaxCase{33, 64, 4, true, false, true}, SoftmaxCase{9, 40, 4, false, true, false, warm},
        SoftmaxCase{70, 2048, 4, true, false, true},
        SoftmaxCase{9, 2048, 4, true, false, true, exact},
        SoftmaxCase{65, 1030, 4, true, true, true, warm},
        SoftmaxCase{40, 4096, 3, false, true, true, exact},
        SoftmaxCase{33, 512, 4, true, false, false},
        // enough rows that the GPU's blocks process them in several rounds
        SoftmaxCase{3000, 2048, 4, true, false, true},
        SoftmaxCase{34000, 132, 4, true, true, true}}) {
    if (!takes_large_sizes() && c.rows * c.width > 4096) continue;
    const auto outputs = (c.mixes ? 3 : 2) * c.n * c.n;
    const auto scale = 1 / std::sqrt(static_cast<double>(c.width));
    expect_fused_equals_composed(
        {random({2, c.rows, c.width}) + 0.5, scale * random({outputs, c.width}), random({outputs}),
         1 + 0.2 * random({c.width}), random({c.width})},
        [c](const Tensors& t) { return softmax_routes_of(t, c); },
        "width " + std::to_string(c.width) + " n " + std::to_string(c.n) + " rows " +
            std::to_string(c.rows),
        1e-4);
  }
}

TEST(SoftmaxRoutes, RunFusedOnAGpuWithoutGradientsToo) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const torch::NoGradGuard no_grad;
  const auto like = torch::TensorOptions().device(gpu());
  const auto x = torch::randn({2, 9, 2048}, like), weight = 0.02 * torch::randn({48, 2048}, like);
  const NormSpec norm{
      .layer = true, .weight = torch::ones({2048}, like), .bias = torch::zeros({2048}, like)};
  const auto made = wide_softmax_routes(x, {norm, weight, Tensor()}, 4, {});
  ASSERT_TRUE(made);
  const auto wanted = cayley_routes(normalized(x, norm).matmul(weight.t()), 4, {});
  EXPECT_LT((made->routes.res - wanted.res).abs().max().item<double>(), 1e-5);
  EXPECT_LT((made->routes.read - wanted.read).abs().max().item<double>(), 1e-5);
  EXPECT_LT((made->routes.write - wanted.write).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace geores
