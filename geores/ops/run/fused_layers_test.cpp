// The parts of a recursive model's layer: all are fused on a GPU, norms and SwiGLU on a CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "geores/ops/attention/attention.h"
#include "geores/ops/attention/rotary.h"
#include "geores/ops/dense/post_norm.h"
#include "geores/ops/dense/swiglu.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/precision.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

class FusedLayers : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }
};

TEST_F(FusedLayers, PostNormEqualsComposed) {
  for (const int64_t width : {1, 7, 128, 132, 512, 513, 516, 2048}) {
    const auto what = "width " + std::to_string(width);
    const auto state = [](const Tensor& x, const Tensor& branch) {
      const auto [y, product] = post_norm(x, branch, 1e-5);
      return Tensors{y, product.to(y.scalar_type())};
    };
    expect_fused_equals_composed(
        {random({3, 5, width}), random({3, 5, width})},
        [&](const Tensors& t) { return state(t[0], t[1]); }, what);
    expect_fused_equals_composed(
        {random({3, 5, width})}, [&](const Tensors& t) { return state(t[0], {}); },
        what + " without a branch");
    expect_fused_equals_composed(
        {random({3, 5, width}), random({3, 5, width})},
        [](const Tensors& t) { return Tensors{post_norm(t[0], t[1], 1e-5).product}; },
        what + " product alone");
  }
  const auto x = random({2, 3}), branch = random({2, 3}), v = x + branch;
  const auto wanted = v / (v.square().mean(-1, true) + 0.5).sqrt();
  EXPECT_LT((post_norm(x, branch, 0.5).state - wanted).abs().max().item<double>(), 1e-14);
}

// Inputs: x, branch, the added tensor.
TEST_F(FusedLayers, WhatIsAddedBehindAPostNormEqualsComposed) {
  for (const int64_t width : {1, 7, 64, 130, 512, 516, 2048})
    for (const bool sum_alone : {false, true})
      expect_fused_equals_composed(
          {random({2, 5, width}), random({2, 5, width}), random({2, 5, width})},
          [sum_alone](const Tensors& t) {
            const auto made = post_norm(t[0], t[1], {.epsilon = 1e-5, .added = t[2]}, true);
            if (sum_alone) return Tensors{made.next, t[2] * 1};
            return Tensors{made.state, made.next, made.product};
          },
          "width " + std::to_string(width));
  const auto x = random({2, 3}), added = random({2, 3});
  const auto made = post_norm(x, {}, {.epsilon = 0.5, .added = added}, false);
  const auto wanted = x / (x.square().mean(-1, true) + 0.5).sqrt() + added;
  EXPECT_LT((made.next - wanted).abs().max().item<double>(), 1e-14);
  EXPECT_FALSE(made.product.defined());
}

TEST_F(FusedLayers, SwiGluEqualsComposed) {
  for (const int64_t hidden : {1, 3, 4, 8, 12, 130, 256})
    expect_fused_equals_composed(
        {random({2, 7, 2 * hidden})}, [](const Tensors& t) { return Tensors{swiglu(t[0])}; },
        "hidden " + std::to_string(hidden));
  const auto x = torch::tensor({{2.0, -1.0, 3.0, 5.0}}, torch::kFloat64);
  const auto y = swiglu(x);
  EXPECT_NEAR(y[0][0].item<double>(), 3 * 2 / (1 + std::exp(-2.0)), 1e-14);
  EXPECT_NEAR(y[0][1].item<double>(), 5 * -1 / (1 + std::exp(1.0)), 1e-14);
}

Tensors heads_of(const Tensor& qkv, int64_t heads, const RotaryTables& tables) {
  const auto all = split_heads(qkv, heads, tables);
  return {all.q, all.k, all.v};
}

TEST_F(FusedLayers, HeadsEqualComposed) {
  for (const auto& [heads, width, length] :
       {std::tuple{1, 2, 1}, {3, 6, 5}, {2, 8, 9}, {4, 32, 17}, {2, 64, 33}}) {
    const auto what = "heads of " + std::to_string(width);
    const auto qkv = random({2, length, 3 * heads * width});
    for (const bool turns : {false, true})
      expect_fused_equals_composed(
          {qkv},
          [&, h = heads, w = width, l = length](const Tensors& t) {
            return heads_of(t[0], h, turns ? rotary_tables(l, w, 100, t[0]) : RotaryTables{});
          },
          what + (turns ? ", turned" : ""));
  }
  EXPECT_EQ(refusal([] {
              split_heads(torch::zeros({1, 2, 10}), 3);
            }),
            "[split_heads] a last axis of 10 is not q, k and v of 3 heads");
}

// The score of a query and a key depends on their distance, not on their positions.
TEST_F(FusedLayers, ScoresOfTurnedHeadsDependOnDistanceAlone) {
  constexpr int64_t kLength = 7, kHeadWidth = 8;
  const auto one = random({1, 1, 3 * kHeadWidth}).expand({1, kLength, 3 * kHeadWidth});
  const auto heads = split_heads(one, 1, rotary_tables(kLength, kHeadWidth, 100, one));
  const auto scores = heads.q.matmul(heads.k.transpose(-1, -2))[0][0];
  for (int64_t i = 1; i < kLength; ++i)
    EXPECT_LT((scores.diagonal(i) - scores[0][i]).abs().max().item<double>(), 1e-12) << i;
  EXPECT_GT((scores[0][1] - scores[1][0]).abs().item<double>(), 1e-3) << "nothing turned";
}

TEST_F(FusedLayers, FullAttentionEqualsComposed) {
  for (const auto& [heads, width, length] :
       {std::tuple{1, 2, 1}, {1, 8, 7}, {3, 6, 9}, {2, 16, 33}, {2, 34, 45}, {3, 64, 70}})
    for (const bool turns : {false, true})
      expect_fused_equals_composed(
          {random({2, length, 3 * heads * width})},
          [&, h = heads, w = width, l = length](const Tensors& t) {
            return Tensors{
                full_attention(t[0], h, turns ? rotary_tables(l, w, 100, t[0]) : RotaryTables{})};
          },
          "length " + std::to_string(length) + (turns ? ", turned" : ""), 1e-4);
}

TEST_F(FusedLayers, FullAttentionRefusesWhatDoesNotFit) {
  const auto qkv = torch::zeros({1, 5, 12});
  EXPECT_EQ(refusal([&] { full_attention(qkv, 5); }),
            "[full_attention] a last axis of 12 is not q, k and v of 5 heads");
  EXPECT_NE(refusal([&] { full_attention(qkv, 0); }), "");
  for (const auto& tables : {rotary_tables(4, 4, 100, qkv), rotary_tables(5, 2, 100, qkv)})
    EXPECT_EQ(refusal([&] { full_attention(qkv, 1, tables); }),
              "[full_attention] the tables do not fit 5 positions of heads of 4 values");
}

TEST_F(FusedLayers, InBfloat16OnAGpuTheyRoundAndNoMore) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const auto relative_error = [](const Tensor& a, const Tensor& b) {
    return ((a.to(torch::kFloat64) - b.to(torch::kFloat64)).norm() / b.to(torch::kFloat64).norm())
        .item<double>();
  };
  const auto compare = [&](const char* what, const Tensors& inputs, const Operation& f) {
    Tensors exact;
    for (const auto& input : inputs) exact.push_back(input.to(torch::kFloat64));
    const auto wanted = [&] {
      const ExecutionScope fp32(Precision::fp32);
      return values_and_gradients(exact, f, Form::composed);
    }();
    const ExecutionScope scope(Precision::bf16);
    const auto fused = values_and_gradients(inputs, f, Form::fused);
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LT(relative_error(fused[i], wanted[i]), 1e-2) << what << " tensor " << i;
  };
  for (const int64_t width : {64, 512, 2048}) {
    const auto state = torch::randn({6, 33, width}, gpu());
    const auto half = [&](int64_t times) {
      return torch::randn({6, 33, times * width}, gpu()).to(torch::kBFloat16);
    };
    compare("post_norm", {state, half(1)}, [](const Tensors& t) {
      const auto [y, product] = post_norm(t[0], t[1], 1e-5);
      return Tensors{y, product};
    });
    compare("post_norm_and_sum", {state, half(1), state * 2}, [](const Tensors& t) {
      const auto made = post_norm(t[0], t[1], {.epsilon = 1e-5, .added = t[2]}, true);
      return Tensors{made.next, made.product};
    });
    compare("swiglu", {half(2)}, [](const Tensors& t) { return Tensors{swiglu(t[0])}; });
    compare("split_heads", {half(3)}, [&](const Tensors& t) {
      return heads_of(
          t[0], width / 32,
          rotary_tables(
              33, 32, 1e4,
              t[0].to(t[0].scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32)));
    });
    compare("full_attention", {half(3)},
            [&](const Tensors& t) { return Tensors{full_attention(t[0], width / 32)}; });
  }
}

}  // namespace
}  // namespace geores
