// Every fused operation against its composed definition, on a GPU too where there is one: values
// and all gradients, both floating-point types, sizes around the widths of vectors and blocks.
// Tolerances, relative to the largest value of a tensor: 1e-12 in float64, 2e-5 in float32.
#include <gtest/gtest.h>

#include <cmath>

#include "geores/base/error.h"
#include "geores/ops/attention/attention.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/routed/routed.h"
#include "geores/ops/routed/routes.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/pool.h"
#include "geores/ops/streams/streams.h"
#include "geores/ops/training/loss.h"
#include "geores/ops/training/optimizer.h"

namespace geores {
namespace {

class Fused : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(3); }
};

TEST_F(Fused, IsTheDefaultOnACpuAndNowhereElse) {
  const auto x = torch::ones({2});
  EXPECT_TRUE(runs_cpu_kernel(x));
  EXPECT_TRUE(runs_cpu_kernel(x.to(torch::kFloat64)));
  EXPECT_FALSE(runs_cpu_kernel(x.to(torch::kBFloat16)));
  {
    const ExecutionScope scope(Form::composed);
    EXPECT_FALSE(runs_cpu_kernel(x));
  }
  EXPECT_TRUE(runs_cpu_kernel(x));
}

// Kernels keep a row of an operator in registers for up to 16 numbers.
TEST_F(Fused, MoreStreamsThanKernelsTakeRunComposed) {
  expect_fused_equals_composed(
      {random({2, 3, 17, 17}), random({2, 3, 17, 5})},
      [](const Tensors& t) { return Tensors{mix_streams(t[0], t[1])}; }, "17 streams");
}

TEST_F(Fused, LinearEqualsComposed) {
  for (const auto& [rows, in, out] :
       {std::tuple{1, 1, 1}, {7, 8, 9}, {257, 9, 7}, {300, 130, 33}, {0, 4, 3}}) {
    const auto name = "linear " + std::to_string(rows);
    expect_fused_equals_composed(
        {random({2, rows, in}), random({out, in}), random({out})},
        [](const Tensors& t) { return Tensors{linear_map(t[0], t[1], t[2])}; }, name);
    expect_fused_equals_composed(
        {random({rows, in}), random({out, in})},
        [](const Tensors& t) { return Tensors{linear_map(t[0], t[1])}; }, name + " without bias");
  }
}

TEST_F(Fused, LinearWithRowsEqualsComposed) {
  for (const auto& [sequences, length, in, out] :
       {std::tuple{1, 1, 1, 1}, {7, 5, 3, 9}, {37, 33, 16, 24}, {70, 3, 8, 260}}) {
    const Tensors inputs = {random({sequences, length, in}), random({out, in}),
                            random({length, out}), random({out})};
    const auto what = "rows " + std::to_string(sequences);
    expect_fused_equals_composed(
        inputs,
        [](const Tensors& t) { return Tensors{linear_map_and_rows(t[0], t[1], t[2], t[3])}; },
        what);
    if (!has_gpu()) continue;
    // In bfloat16: the same products, and a gradient that is rounded once for both.
    const ExecutionScope scope(Precision::bf16);
    Tensors typed;
    for (const auto& input : inputs) typed.push_back(input.to(gpu(), torch::kFloat32));
    const auto together = values_and_gradients(
        typed,
        [](const Tensors& t) { return Tensors{linear_map_and_rows(t[0], t[1], t[2], t[3])}; },
        Form::fused);
    const auto apart = values_and_gradients(
        typed,
        [](const Tensors& t) { return Tensors{add_to_each(linear_map(t[0], t[1]), t[2], t[3])}; },
        Form::fused);
    for (size_t i = 0; i < apart.size(); ++i)
      EXPECT_LT((together[i] - apart[i]).abs().max().item<double>(),
                1e-4 * std::max(1.0, apart[i].abs().max().item<double>()))
          << what << " tensor " << i;
    const auto half =
        linear_map_and_rows(typed[0].to(torch::kBFloat16), typed[1], typed[2], typed[3]);
    EXPECT_TRUE(torch::equal(half, together[0].detach())) << what << ", x as the product takes it";
  }
}

TEST_F(Fused, LinearTakesInputsThatAreNotContiguous) {
  expect_fused_equals_composed(
      {random({5, 9, 7}), random({3, 5})},
      [](const Tensors& t) { return Tensors{linear_map(t[0].transpose(0, 2), t[1])}; }, "linear");
}

TEST_F(Fused, PerceptronEqualsComposed) {
  for (const auto& [rows, in, hidden] :
       {std::tuple{1, 1, 1}, {7, 9, 8}, {257, 8, 33}, {300, 16, 65}})
    expect_fused_equals_composed(
        {random({rows, in}), random({hidden, in}), random({in, hidden})},
        [](const Tensors& t) { return Tensors{perceptron(t[0], t[1], t[2])}; },
        "perceptron " + std::to_string(rows));
  expect_fused_equals_composed(
      {4 * random({257})}, [](const Tensors& t) { return Tensors{exact_gelu(t[0])}; }, "gelu");
}

// Of 128 values to a multiple of 128 the products and GELU are one kernel.
TEST_F(Fused, PerceptronInBfloat16OnAGpuIsCloseToItsDefinition) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const auto& [rows, in, hidden] : {std::tuple{5, 128, 128}, {130, 128, 256}, {70, 64, 96}}) {
    const Tensors inputs = {random({rows, in}), random({hidden, in}) / std::sqrt(in),
                            random({in, hidden}) / std::sqrt(hidden)};
    const auto f = [](const Tensors& t) { return Tensors{perceptron(t[0], t[1], t[2])}; };
    Tensors exact, single;
    for (const auto& input : inputs) {
      exact.push_back(input.to(gpu()));
      single.push_back(input.to(gpu(), torch::kFloat32));
    }
    const auto wanted = values_and_gradients(exact, f, Form::composed);
    const ExecutionScope scope(Precision::bf16);
    const auto made = values_and_gradients(single, f, Form::fused);
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LT(
          ((made[i].to(torch::kFloat64) - wanted[i]).norm() / wanted[i].norm()).item<double>(),
          1e-2)
          << rows << " tensor " << i;
  }
}

TEST_F(Fused, AttentionEqualsComposed) {
  for (const auto& [length, heads, width] : {std::tuple{1, 1, 1},
                                             {7, 2, 3},
                                             {8, 1, 8},
                                             {9, 3, 9},
                                             {33, 2, 16},
                                             {65, 1, 17},
                                             {257, 2, 32}})
    expect_fused_equals_composed(
        {random({2, length, 3 * heads * width})},
        [heads = heads](const Tensors& t) { return Tensors{causal_attention(t[0], heads)}; },
        "attention " + std::to_string(length));
}

TEST_F(Fused, AttentionStandsLargeScores) {
  const auto qkv = 30 * random({1, 40, 3 * 8});
  expect_fused_equals_composed(
      {qkv}, [](const Tensors& t) { return Tensors{causal_attention(t[0], 1)}; }, "attention",
      2e-4);
}

// LibTorch's attention in bfloat16 rounds differently, so the reference is float64.
TEST_F(Fused, AttentionInBfloat16OnAGpuEqualsItsDefinition) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const auto relative_error = [](const Tensor& a, const Tensor& b) {
    return ((a.to(torch::kFloat64) - b).norm() / b.norm()).item<double>();
  };
  for (const int64_t width : {32, 64})
    for (const int64_t length :
         {1, 2, 16, 17, 33, 64, 65, 127, 129, 192, 255, 256, 257, 289, 350}) {
      constexpr int64_t batch = 3, heads = 2;
      if (!takes_large_sizes() && length % 64 > 1) continue;
      const auto qkv = torch::randn({batch, length, 3 * heads * width}, gpu());
      const auto cotangent = torch::randn({batch, length, heads * width}, gpu());
      const auto run = [&](const Tensor& x) {
        const auto leaf = x.detach().requires_grad_(true);
        const auto out = causal_attention(leaf, heads);
        out.backward(cotangent.to(out.scalar_type()));
        return std::pair(out.detach(), leaf.grad());
      };
      const auto rounded = qkv.to(torch::kBFloat16);
      const auto [half, dhalf] = run(rounded);
      const ExecutionScope form(Form::composed);
      const auto [full, dfull] = run(rounded.to(torch::kFloat64));
      EXPECT_LT(relative_error(half, full), 5e-3) << width << " " << length;
      EXPECT_LT(relative_error(dhalf, dfull), 1e-2) << width << " " << length;
    }
}

TEST_F(Fused, AttentionInTf32OnAGpuEqualsItsDefinition) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const torch::NoGradGuard no_grad;
  for (const int64_t width : {32, 64})
    for (const int64_t length : {1, 2, 16, 17, 33, 129, 255, 300}) {
      if (!takes_large_sizes() && length > 33) continue;
      constexpr int64_t batch = 3, heads = 2;
      const auto qkv = 1.5 * torch::randn({batch, length, 3 * heads * width}, gpu());
      const auto error = [&](Precision products) {
        set_float32_products(products);
        const auto out = causal_attention(qkv, heads).to(torch::kFloat64);
        set_float32_products(Precision::fp32);
        const ExecutionScope form(Form::composed);
        const auto exact = causal_attention(qkv.to(torch::kFloat64), heads);
        return ((out - exact).norm() / exact.norm()).item<double>();
      };
      EXPECT_LT(error(Precision::tf32), 1e-3) << width << " " << length;
      EXPECT_GT(error(Precision::tf32), 1e-5) << "not in tf32: " << width << " " << length;
      EXPECT_LT(error(Precision::fp32), 2e-6) << width << " " << length;
    }
}

TEST_F(Fused, NormsEqualComposed) {
  for (const int64_t width :
       {3, 7, 8, 9, 257, 516, 768, 1024}) {  // with one or two values only rounding is left
    const auto what = "width " + std::to_string(width);
    const Tensors inputs = {random({3, 5, width}), random({width}), random({width})};
    expect_fused_equals_composed(
        inputs, [](const Tensors& t) { return Tensors{layer_norm(t[0], t[1], t[2])}; }, what, 1e-4);
    expect_fused_equals_composed(
        {inputs[0], inputs[1]},
        [](const Tensors& t) {
          const auto [normalized, skip] = layer_norm_and_skip(t[0], t[1]);
          return Tensors{normalized, skip};
        },
        what + " and skip", 1e-4);
    const Tensors with_branch = {inputs[0], inputs[1], random({3, 5, width})};
    const auto of_a_sum = [](const Tensors& t) { return layer_norm_and_skip({t[0], t[2]}, t[1]); };
    expect_fused_equals_composed(
        with_branch,
        [&](const Tensors& t) {
          const auto [normalized, skip] = of_a_sum(t);
          return Tensors{normalized, skip};
        },
        what + " of a sum", 1e-4);
    expect_fused_equals_composed(
        with_branch, [&](const Tensors& t) { return Tensors{of_a_sum(t).normalized}; },
        what + " of a sum without skip", 1e-4);
    expect_fused_equals_composed(
        with_branch,
        [&](const Tensors& t) {
          return Tensors{of_a_sum(t).skip, t[1] * 1};
        },
        what + " of a sum, skip only", 1e-4);
    expect_fused_equals_composed(
        {inputs[0]}, [](const Tensors& t) { return Tensors{rms_normalize(t[0])}; }, what + " rms");
    for (const bool layer : {true, false})
      for (const bool sum : {true, false})
        expect_fused_equals_composed(
            {random({70, width}), random({9, width}), random({9}), inputs[1], inputs[2],
             random({70, width})},
            [layer, sum](const Tensors& t) {
              const auto [projected, skip] = normalized_linear(
                  {t[0], sum ? t[5] : Tensor()},
                  {.layer = layer, .weight = t[3], .bias = layer ? t[4] : Tensor()}, t[1], t[2]);
              return Tensors{projected, skip, t[4] * 1, t[5] * 1};
            },
            what + " projected", 1e-4);
  }
}

TEST_F(Fused, StreamsEqualComposed) {
  for (const int64_t n : {1, 2, 3, 4, 5, 8, 16})
    for (const int64_t d : {5, 7, 8, 9}) {
      const auto what = "n " + std::to_string(n) + " d " + std::to_string(d);
      for (const int64_t operators : {1, 6}) {
        expect_fused_equals_composed(
            {random({2, operators, n, n}), random({2, 6, n * d}), random({n * d})},
            [](const Tensors& t) {
              const auto [normalized, skip] = mix_and_norm(t[0], t[1], t[2]);
              return Tensors{normalized, skip};
            },
            "mix_and_norm " + what, 3e-4);
      }
      const auto x = random({2, 6, n, d}), weights = random({2, 6, n});
      for (const int64_t tiles : {int64_t{1}, n})
        expect_fused_equals_composed(
            {weights, x, random({tiles * d})},
            [tiles](const Tensors& t) {
              const auto [normalized, skip] = collect_and_norm(t[0], t[1], t[2], tiles);
              return Tensors{normalized, skip};
            },
            "collect_and_norm " + what, 3e-4);
      for (const auto& branch : {random({2, 6, d}), random({2, 6, n, d})})
        expect_fused_equals_composed(
            {random({2, 6, n, n}), x, weights, branch},
            [](const Tensors& t) { return Tensors{mix_and_write(t[0], t[1], t[2], t[3])}; },
            "mix_and_write " + what);
      expect_fused_equals_composed(
          {random({2, 6, n, n}), x},
          [](const Tensors& t) { return Tensors{mix_streams(t[0], t[1])}; }, "mix " + what);
      expect_fused_equals_composed(
          {weights, x}, [](const Tensors& t) { return Tensors{collect_streams(t[0], t[1])}; },
          "collect " + what);
      expect_fused_equals_composed(
          {x}, [](const Tensors& t) { return Tensors{stream_entropy(t[0])}; }, "entropy " + what,
          1e-3);
    }
}

TEST_F(Fused, LossesEqualComposed) {
  for (const int64_t size : {1, 9, 257, 9000, 300001}) {
    const auto target = random({size + 1});
    expect_fused_equals_composed(
        {random({size})},
        [&](const Tensors& t) {  // an unaligned target
          return Tensors{mean_squared_error(t[0], target.to(t[0].options()).slice(0, 1))};
        },
        "mse " + std::to_string(size));
  }
  for (const int64_t classes : {1, 2, 9, 257}) {
    auto targets = torch::randint(classes, {3, 67}, torch::kInt64);
    targets[1].slice(0, 5, 40) = -1;
    expect_fused_equals_composed(
        {3 * random({3, 67, classes})},
        [&](const Tensors& t) {
          return Tensors{mean_cross_entropy(t[0], targets.to(t[0].device()))};
        },
        "cross entropy " + std::to_string(classes));
  }
  if (!emulates_gpu()) {
    EXPECT_THROW(mean_cross_entropy(torch::zeros({1, 2}), torch::full({1}, 2, torch::kInt64)),
                 Error);
  }
}

TEST_F(Fused, TheErrorOfALinearMapEqualsComposed) {
  for (const auto& [rows, in, out] :
       {std::tuple{1, 3, 1}, {37, 24, 16}, {700, 16, 9}, {5000, 8, 200}}) {
    if (emulates_gpu() && rows > 100) continue;
    const Tensors inputs = {random({2, rows, in}), random({in}), random({out, in}), random({out})};
    const auto target = random({2, rows, out});
    const auto what = "error " + std::to_string(rows);
    const auto error = [&](const Tensors& t) {
      return Tensors{normalized_linear_error(t[0], {.layer = true, .weight = t[1]}, t[2], t[3],
                                             target.to(t[0].options()))};
    };
    expect_fused_equals_composed(inputs, error, what, 1e-4);
    if (!has_gpu()) continue;
    // In bfloat16: the same as the prediction first and its error afterwards.
    const ExecutionScope scope(Precision::bf16);
    Tensors typed;
    for (const auto& input : inputs) typed.push_back(input.to(gpu(), torch::kFloat32));
    const auto together = values_and_gradients(typed, error, Form::fused);
    const auto apart = values_and_gradients(
        typed,
        [&](const Tensors& t) {
          return Tensors{mean_squared_error(
              normalized_linear(t[0], {.layer = true, .weight = t[1]}, t[2], t[3]).projected,
              target.to(t[0].options()))};
        },
        Form::fused);
    for (size_t i = 0; i < apart.size(); ++i)
      EXPECT_LT((together[i] - apart[i]).norm().item<double>(),
                1e-4 * apart[i].norm().item<double>() + 1e-6)
          << what << " tensor " << i;
  }
}

TEST_F(Fused, PoolsEqualComposed) {
  for (const int64_t length : {1, 7, 257})
    for (const auto pool : {Pool::sequence, Pool::causal})
      expect_fused_equals_composed(
          {random({3, length, 9})},
          [pool](const Tensors& t) { return Tensors{pooled(t[0], pool)}; },
          "pool " + std::to_string(length));
}

TEST_F(Fused, HybridOperatorsEqualComposed) {
  for (const int64_t n : {2, 3, 4, 8, 16})
    expect_fused_equals_composed(
        {random({3, 7, n}), random({3, 7, n}), random({3, 7, n}), random({3, 7, 1}),
         random({3, 7, 1})},
        [](const Tensors& t) {
          return Tensors{hybrid_operator({.u = t[0],
                                          .v = t[1],
                                          .k = normalize(t[2]),
                                          .beta = torch::softplus(t[3]),
                                          .gamma = torch::sigmoid(t[4])})};
        },
        "hybrid " + std::to_string(n));
}

TEST_F(Fused, CayleyRoutesEqualComposed) {
  for (const int64_t n : {2, 3, 4, 8, 16})
    for (const CayleyRouting& routing :
         {CayleyRouting{.temperature = 0.7, .alpha = 0.3, .iterations = 2},
          CayleyRouting{.iterations = 0}, CayleyRouting{.alpha = 0.9, .exact = true}})
      expect_fused_equals_composed(
          {random({2, 9, 3 * n * n})},
          [&](const Tensors& t) {
            const auto routes = cayley_routes(t[0], n, routing);
            return Tensors{routes.res, routes.read, routes.write};
          },
          "routes " + std::to_string(n) + " alpha " + std::to_string(routing.alpha), 1e-4);
}

TEST_F(Fused, SoftmaxReadWriteEqualsComposed) {
  for (const int64_t n : {2, 3, 4, 8})
    expect_fused_equals_composed(
        {3 * random({3, 7, 2 * n * n})},
        [n](const Tensors& t) {
          const auto [read, write] = softmax_read_write(t[0], n, 0.7);
          return Tensors{read, write};
        },
        "softmax_read_write " + std::to_string(n), 1e-4);
}

TEST_F(Fused, RoutedStreamsEqualComposed) {
  for (const auto& [n, d, length] : {std::tuple<int64_t, int64_t, int64_t>{2, 5, 3},
                                     {3, 7, 1},
                                     {4, 9, 130},
                                     {8, 8, 37},
                                     {16, 5, 7}})
    for (const CayleyRouting& routing : {CayleyRouting{.temperature = 0.7, .alpha = 0.3},
                                         CayleyRouting{.alpha = 0.9, .exact = true}})
      for (const bool with_bias : {true, false})
        expect_fused_equals_composed(
            {random({2, length, n * d}), 0.3 * random({3 * n * n, n * d}), random({3 * n * n}),
             random({n * d}), random({n * d}), random({d})},
            [&](const Tensors& t) {
              const RoutedSpec spec{.streams = n,
                                    .width = d,
                                    .norm = {.layer = true, .weight = t[3], .bias = t[4]},
                                    .projections = {{t[1], with_bias ? t[2] : Tensor(), {}}},
                                    .routing = routing,
                                    .read_norm = {.weight = t[5]}};
              // All paths of a gradient: through h, through write and through the carried state.
              const auto routed = Routed::make(t[0], spec);
              return Tensors{routed.write(torch::sin(routed.read())), routed.read(),
                             routed.routes().write, t[2] * 1};
            },
            "routed " + std::to_string(n) + " exact " + std::to_string(routing.exact), 1e-4);
}

}  // namespace
}  // namespace geores
