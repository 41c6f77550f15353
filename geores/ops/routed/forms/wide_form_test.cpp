// The operations of hyper-connections with wide streams against their composed definitions: values
// and all gradients, both floating-point types. Without a GPU both sides are composed, so a few
// sizes suffice.
#include "geores/ops/routed/forms/wide_form.h"

#include <gtest/gtest.h>

#include <string>

#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/wide_routes.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

class Wide : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }

  // Whether a case of this size is run on this machine.
  static bool counts(int64_t values) { return takes_large_sizes() || values <= 2048; }
};

Tensor read_of(const Tensor& collected, const ReadNormSpec& norm) {
  if (norm.kind == ReadNormSpec::Kind::none) return collected;
  if (norm.kind == ReadNormSpec::Kind::layer) return layer_norm(collected, norm.weight);
  return rms_normalize(collected, norm.epsilon) * norm.weight;
}

// Inputs: res, read, write, x, the norm's weight, and a map as the sublayer.
Tensors around_a_sublayer(const Tensors& t, ReadNormSpec norm) {
  norm.weight = t[4];
  const auto sublayer = [&](const Tensor& h) { return torch::tanh(h * t[5]); };
  // The weight and a second use of the read output always enter the sum.
  const auto result = [&](const Tensor& read, const Tensor& out) {
    return Tensors{read, out, t[4] * 1};
  };
  const Routes routes{.res = t[0], .read = t[1], .write = t[2]};
  if (const auto wide = WideForm::of(routes, t[3], norm))
    return result(wide->read(), wide->write(sublayer(wide->read())));
  const auto h = read_of(collect_streams(routes.read, t[3]), norm);
  return result(h, mix_and_write(routes.res, t[3], routes.write, sublayer(h)));
}

TEST_F(Wide, StreamsEqualComposed) {
  struct Case {
    int64_t n, d, length;
  };
  for (const auto& [n, d, length] :
       {Case{2, 7, 3}, Case{2, 96, 9}, Case{3, 128, 5}, Case{4, 5, 1}, Case{4, 513, 7},
        Case{4, 768, 9}, Case{5, 1024, 3}, Case{6, 36, 11}, Case{7, 130, 2}, Case{8, 7, 4},
        Case{8, 260, 5}, Case{2, 2052, 2}})
    if (counts(n * d))
      for (const auto& norm : {ReadNormSpec{}, ReadNormSpec{ReadNormSpec::Kind::rms, {}, 1e-6},
                               ReadNormSpec{ReadNormSpec::Kind::none, {}, 0}})
        expect_fused_equals_composed(
            {random({2, length, n, n}), random({2, length, n}), random({2, length, n}),
             random({2, length, n, d}), random({d}), random({d})},
            [norm = norm](const Tensors& t) { return around_a_sublayer(t, norm); },
            "n " + std::to_string(n) + " d " + std::to_string(d) + " norm " +
                std::to_string(static_cast<int>(norm.kind)),
            3e-4);
}

TEST_F(Wide, MixedStreamsEqualComposed) {
  for (const auto& [n, d] : {std::pair{2, 7}, {4, 12}, {3, 130}, {4, 512}, {8, 513}})
    if (counts(n * d))
      expect_fused_equals_composed(
          {random({2, 9, n, n}), random({2, 9, n, d})},
          [](const Tensors& t) { return Tensors{mix_streams(t[0], t[1])}; },
          "n " + std::to_string(n) + " d " + std::to_string(d), 1e-4);
}

// Inputs as in around_a_sublayer, then the added tensor; without a norm before the sublayer, with
// one after the sum.
Tensors around_a_sublayer_and_norm(const Tensors& t, double epsilon, bool adds) {
  const auto sublayer = [&](const Tensor& h) { return torch::tanh(h * t[5]); };
  const Routes routes{.res = t[0], .read = t[1], .write = t[2]};
  const PostNorm norm{.epsilon = epsilon, .added = adds ? t[6] : Tensor()};
  const auto result = [&](const PostNormed& made) {
    return Tensors{made.state, made.next, t[4] * 1, t[6] * 1};
  };
  if (const auto wide = WideForm::of(routes, t[3], {.kind = ReadNormSpec::Kind::none}))
    return result(wide->write_normalized(sublayer(wide->read()), norm));
  return result(post_norm_of_tokens(
      mix_and_write(routes.res, t[3], routes.write, sublayer(collect_streams(routes.read, t[3]))),
      norm));
}

// The last two exceed the shared memory of a block: in float64, and in both types.
TEST_F(Wide, TheNormBehindAWriteEqualsComposed) {
  for (const auto& [n, d, length] : {std::tuple{2, 7, 3},
                                     {4, 12, 9},
                                     {4, 130, 5},
                                     {3, 128, 6},
                                     {4, 512, 70},
                                     {4, 513, 7},
                                     {4, 1024, 9},
                                     {8, 260, 5},
                                     {5, 36, 11},
                                     {8, 1024, 2},
                                     {4, 4096, 2}})
    if (counts(n * d))
      for (const bool adds : {false, true})
        expect_fused_equals_composed(
            {random({2, length, n, n}), random({2, length, n}), random({2, length, n}),
             random({2, length, n, d}), random({d}), random({d}), random({2, length, n, d})},
            [adds](const Tensors& t) { return around_a_sublayer_and_norm(t, 1e-2, adds); },
            "n " + std::to_string(n) + " d " + std::to_string(d), 3e-4);
}

// Only the sum is used: only its gradient arrives, and without gradients the state is not computed.
TEST_F(Wide, TheSumBehindANormMayBeAllThatIsMade) {
  const auto inputs =
      Tensors{random({2, 5, 4, 4}), random({2, 5, 4}), random({2, 5, 4}),    random({2, 5, 4, 12}),
              random({12}),         random({12}),      random({2, 5, 4, 12})};
  expect_fused_equals_composed(
      inputs,
      [](const Tensors& t) {
        const auto all = around_a_sublayer_and_norm(t, 1e-2, true);
        return Tensors{all[1], all[2], all[3]};
      },
      "sum alone", 1e-4);
  if (!has_gpu()) return;
  const torch::NoGradGuard no_grad;
  Tensors t;
  for (const auto& input : inputs) t.push_back(input.to(gpu()));
  const auto wide = WideForm::of({.res = t[0], .read = t[1], .write = t[2]}, t[3],
                                 {.kind = ReadNormSpec::Kind::none});
  ASSERT_TRUE(wide);
  const auto both = wide->write_normalized(wide->read(), {.epsilon = 1e-2, .added = t[6]}),
             alone = wide->write_normalized(wide->read(),
                                            {.epsilon = 1e-2, .added = t[6], .keeps_state = false});
  EXPECT_FALSE(alone.state.defined());
  // A product and a sum may be rounded once or twice in the two kernels.
  EXPECT_LT((alone.next - both.next).abs().max().item<double>(), 1e-6);
}

TEST_F(Wide, StreamsOfOneValueEqualComposedWithoutANorm) {
  for (const int64_t n : {2, 3, 8})
    expect_fused_equals_composed(
        {random({2, 5, n, n}), random({2, 5, n}), random({2, 5, n}), random({2, 5, n, 1}),
         random({1}), random({1})},
        [](const Tensors& t) {
          return around_a_sublayer(t, {ReadNormSpec::Kind::none, {}, 0});
        },
        "n " + std::to_string(n));
}

// A state with only a write, or only a read, has the gradient of that path alone.
TEST_F(Wide, ReadingAloneAndWritingAloneHaveTheirGradients) {
  const Tensors inputs = {random({2, 3, 4, 4}),  random({2, 3, 4}), random({2, 3, 4}),
                          random({2, 3, 4, 12}), random({12}),      random({2, 3, 12})};
  for (const bool reads : {true, false})
    expect_fused_equals_composed(
        inputs,
        [reads](const Tensors& t) {
          Tensor out;
          const Routes routes{.res = t[0], .read = t[1], .write = t[2]};
          if (const auto wide = WideForm::of(routes, t[3], {.weight = t[4]}))
            out = reads ? wide->read() : wide->write(t[5]);
          else if (reads)
            out = layer_norm(collect_streams(t[1], t[3]), t[4]);
          else
            out = mix_and_write(t[0], t[3], t[2], t[5]);
          Tensors all = {out};
          for (const auto& input : t) all.push_back(input * 1);
          return all;
        },
        reads ? "reading" : "writing", 1e-4);
}

// Inputs: x, then weight, bias and scale of two projections.
Tensors projections_of(const Tensors& t, double epsilon) {
  const std::vector<ProjectionWeights> projections = {{t[1], t[2], t[3]}, {t[4], t[5], Tensor()}};
  if (const auto wide = wide_projected(t[0], epsilon, projections))
    return {wide->projected, wide->skip * 2};
  const auto normal = rms_normalize(t[0], epsilon);
  return {torch::cat({t[3] * normal.matmul(t[1].t()) + t[2], normal.matmul(t[4].t()) + t[5]}, -1),
          t[0] * 2};
}

TEST_F(Wide, ProjectionsEqualComposed) {
  struct Case {
    int64_t rows, width, first, second;
  };
  for (const auto& [rows, width, first, second] :
       {Case{1, 1, 1, 1}, Case{5, 7, 4, 4}, Case{17, 128, 5, 3}, Case{33, 513, 10, 6},
        Case{70, 768, 16, 8}, Case{19, 1024, 20, 12}, Case{40, 3072, 16, 8}, Case{9, 4100, 30, 50},
        Case{3, 8192, 60, 20},
        // enough rows that the GPU's blocks process them in several rounds
        Case{34000, 132, 4, 2}, Case{3000, 3072, 16, 8}, Case{1500, 3072, 20, 12}})
    if (counts(rows * width))
      for (const double epsilon : {0.0, 1e-2})
        expect_fused_equals_composed(
            {random({1, rows, width}), random({first, width}), random({first}), random({1}),
             random({second, width}), random({second})},
            [epsilon](const Tensors& t) { return projections_of(t, epsilon); },
            "rows " + std::to_string(rows) + " width " + std::to_string(width), 1e-4);
}

// Inputs as those of projections_of, of which the first 2n values are read and write.
TEST_F(Wide, SigmoidRoutesEqualComposed) {
  for (const auto& [rows, width, n, rest] :
       {std::tuple{5, 7, 2, 0}, {17, 130, 3, 9}, {70, 3072, 4, 24}, {40, 1028, 8, 64}})
    if (counts(rows * width))
      expect_fused_equals_composed(
          {random({2, rows, width}), random({2 * n, width}), random({2 * n}), random({1}),
           random({rest + 1, width}), random({rest + 1})},
          [n = n](const Tensors& t) {
            const std::vector<ProjectionWeights> projections = {{t[1], t[2], t[3]},
                                                                {t[4], t[5], Tensor()}};
            if (const auto wide = wide_sigmoid_routes(t[0], 1e-2, projections, n, 0.3)) {
              const auto& [read, write, others] = wide->routes;
              return Tensors{read, write, others, wide->skip * 2};
            }
            const auto all = projections_of(t, 1e-2);
            const auto [read, write, others] = sigmoid_routes(all[0], n, 0.3);
            return Tensors{read, write, others, all[1]};
          },
          "width " + std::to_string(width), 1e-4);
}

// Where LibTorch's float32 products use tf32, gradients of projections do too: 10 bits of a
// factor's mantissa remain.
TEST_F(Wide, GradientsOfProjectionsAreCloseWhereFactorsMayBeRounded) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const auto& [rows, width, first, second] :
       {std::tuple{5, 36, 4, 4}, {70, 768, 16, 8}, {1500, 3072, 20, 12}, {9, 4100, 30, 50}}) {
    if (!takes_large_sizes() && rows > 1000) continue;
    const Tensors inputs = {random({1, rows, width}), random({first, width}),
                            random({first}),          random({1}),
                            random({second, width}),  random({second})};
    const auto gradients = [&](Precision products) {
      set_float32_products(products);
      Tensors typed;
      for (const auto& input : inputs) typed.push_back(input.to(gpu(), torch::kFloat32));
      auto all = values_and_gradients(
          typed, [](const Tensors& t) { return projections_of(t, 0); }, Form::fused);
      set_float32_products(Precision::fp32);
      return all;
    };
    const auto exact = gradients(Precision::fp32), rounded = gradients(Precision::bf16);
    double largest = 0;
    constexpr size_t kOfScale = 5;  // one number, a sum that nearly cancels
    for (size_t i = 0; i < exact.size(); ++i) {
      if (i == kOfScale) continue;
      const auto error = (exact[i] - rounded[i]).abs().max() / exact[i].abs().max();
      largest = std::max(largest, error.item<double>());
    }
    EXPECT_LT(largest, 2e-3) << "width " << width;
    EXPECT_GT(largest, 1e-6) << "nothing was rounded at width " << width;
  }
}

TEST_F(Wide, ProjectionsWithoutAGradientOfTheSkipEqualComposed) {
  expect_fused_equals_composed(
      {random({2, 6, 4, 36}), random({6, 36}), random({6})},
      [](const Tensors& t) {
        if (const auto wide = wide_projected(t[0], 0, {{t[1], t[2], Tensor()}}))
          return Tensors{wide->projected};
        return Tensors{rms_normalize(t[0], 0).matmul(t[1].t()) + t[2]};
      },
      "projections alone", 1e-4);
}

TEST_F(Wide, LinearMapsEqualComposed) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{5, 7}, {17, 128}, {70, 768}})
    if (counts(rows * width))
      expect_fused_equals_composed(
          {random({2, rows, width}), random({1, width}), random({1}), random({4, width}),
           random({4})},
          [](const Tensors& t) {
            if (const auto wide =
                    wide_linear(t[0], {{t[1], t[2], Tensor()}, {t[3], t[4], Tensor()}}))
              return Tensors{wide->projected, wide->skip * 2};
            return Tensors{
                torch::cat({t[0].matmul(t[1].t()) + t[2], t[0].matmul(t[3].t()) + t[4]}, -1),
                t[0] * 2};
          },
          "width " + std::to_string(width), 1e-4);
}

TEST_F(Wide, SinkhornOfTwoToEightStreamsEqualsComposedInBothGradients) {
  for (const int64_t n : {2, 3, 4, 5, 6, 7, 8})
    if (counts(n * n * 200))
      for (const auto order : {SinkhornOrder::rows_last, SinkhornOrder::columns_last})
        for (const auto gradient : {SinkhornGradient::implicit, SinkhornGradient::unrolled})
          for (const double bound : {0.0, 10.0})
            expect_fused_equals_composed(
                {0.5 * random({3, 27, n, n})},
                [=](const Tensors& t) {
                  return Tensors{sinkhorn(t[0], {60, gradient, order, bound})};
                },
                "sinkhorn n " + std::to_string(n), 1e-4);
}

// At mHC's initial state 20 iterations have not converged; the gradient of the iterations is still
// exact.
TEST_F(Wide, UnrolledSinkhornIsExactBeforeItConverges) {
  for (const int64_t n : {2, 4, 7}) {
    const auto start = -8 * (1 - torch::eye(n, torch::kFloat64));
    expect_fused_equals_composed(
        {start + random({2, 9, n, n}) + 4 * random({2, 9, n, 1})},
        [](const Tensors& t) {
          return Tensors{
              sinkhorn(t[0], {20, SinkhornGradient::unrolled, SinkhornOrder::rows_last, 0})};
        },
        "sinkhorn n " + std::to_string(n), 1e-4);
  }
}

TEST_F(Wide, StreamsOfTheBaseModelRunFusedOnAGpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const auto like = torch::TensorOptions().device(gpu());
  const auto x = torch::randn({2, 8, 4, 768}, like), routes = torch::randn({2, 8, 4}, like);
  EXPECT_TRUE(WideForm::of({torch::randn({2, 8, 4, 4}, like), routes, routes}, x,
                           {.weight = torch::ones({768}, like)}));
  EXPECT_TRUE(wide_projected(
      x.flatten(2), 0, {{torch::randn({24, 3072}, like), torch::randn({24}, like), Tensor()}}));
  const ExecutionScope scope(Precision::bf16);
  const auto wide = WideForm::of({torch::randn({2, 8, 4, 4}, like), routes, routes}, x,
                                 {.weight = torch::ones({768}, like)});
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->read().scalar_type(), torch::kBFloat16);
  EXPECT_EQ(wide->write(wide->read()).scalar_type(), torch::kFloat32);
  EXPECT_EQ(wide->write_normalized(wide->read(), {.epsilon = 1e-5}).next.scalar_type(),
            torch::kFloat32);
}

// In bfloat16 only the sublayer's input and output are rounded.
TEST_F(Wide, StreamsInBfloat16AreCloseToTheirDefinition) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const int64_t d : {36, 513, 768}) {
    Tensors inputs = {torch::randn({2, 9, 4, 4}), torch::randn({2, 9, 4}), torch::randn({2, 9, 4}),
                      torch::randn({2, 9, 4, d}), torch::randn({d}),       torch::randn({d})};
    for (auto& input : inputs) input = input.to(gpu());
    const auto f = [](const Tensors& t) {
      auto out = around_a_sublayer(t, {});
      out[0] = out[0].to(torch::kFloat32);
      return out;
    };
    const auto exact = values_and_gradients(inputs, f, Form::composed);
    const ExecutionScope scope(Precision::bf16);
    const auto rounded = values_and_gradients(inputs, f, Form::fused);
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_LT((rounded[i] - exact[i]).norm().item<double>(),
                2e-2 * exact[i].norm().item<double>() + 1e-6)
          << "d " << d << " tensor " << i;
  }
}

}  // namespace
}  // namespace geores
