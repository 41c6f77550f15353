// What operations ask about types and room: on a CPU, where the answers are the same tensors.
#include "geores/ops/precision.h"

#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/ops/sum_room.h"

namespace geores {
namespace {

TEST(Precision, OnlyBfloat16RoundsWhatGoesIntoAProduct) {
  const auto x = torch::randn({3, 5}), wide = torch::randn({3}, torch::kFloat64);
  for (const char* precision : {"fp32", "tf32"}) {
    const PrecisionScope scope(precision);
    EXPECT_TRUE(for_product(x).is_same(x)) << precision;
    EXPECT_EQ(product_type(torch::kFloat32), torch::kFloat32) << precision;
  }
  {
    const PrecisionScope scope("bf16");
    EXPECT_TRUE(torch::equal(for_product(x), x.to(torch::kBFloat16)));
    EXPECT_TRUE(for_product(wide).is_same(wide)) << "float64 is for verification";
    EXPECT_EQ(product_type(torch::kFloat32), torch::kBFloat16);
    EXPECT_EQ(product_type(torch::kFloat64), torch::kFloat64);
    const PrecisionScope inner("fp32");
    EXPECT_FALSE(products_in_bfloat16());
  }
  EXPECT_FALSE(products_in_bfloat16()) << "a scope ends";
  EXPECT_THROW(PrecisionScope("fp16"), Error);
}

TEST(Precision, WeightsAreConvertedOnceAndTogether) {
  const auto values = torch::randn({40});
  const auto part = values.slice(0, 8, 20).view({3, 4}), other = torch::randn({3, 4});
  const PrecisionScope scope("bf16");
  const torch::NoGradGuard no_grad;
  {
    const ProductWeights weights(values);
    const auto first = for_product(part), second = for_product(part);
    EXPECT_TRUE(torch::equal(first, part.to(torch::kBFloat16)));
    EXPECT_EQ(first.data_ptr(), second.data_ptr()) << "views of one copy";
    EXPECT_TRUE(torch::equal(for_product(other), other.to(torch::kBFloat16))) << "not a part of it";
    EXPECT_TRUE(torch::equal(for_product(part.t()), part.t().to(torch::kBFloat16)))
        << "not in its order";
    values.fill_(7);
    EXPECT_FALSE(torch::equal(for_product(part), part.to(torch::kBFloat16)))
        << "the copy is that of the beginning";
    const torch::AutoGradMode with_grad(true);
    EXPECT_TRUE(torch::equal(for_product(part), part.to(torch::kBFloat16)))
        << "a copy has no gradient";
  }
  EXPECT_TRUE(torch::equal(for_product(part), part.to(torch::kBFloat16))) << "and ends";
}

TEST(Precision, Float32ProductsOnAGpuMayDropDigitsUnlessAskedNotTo) {
  const auto before = at::globalContext().float32MatmulPrecision();
  set_float32_products("fp32");
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  for (const char* precision : {"tf32", "bf16"}) {
    set_float32_products(precision);
    EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  }
  at::globalContext().setFloat32MatmulPrecision(
      before == at::Float32MatmulPrecision::HIGHEST ? "highest" : "high");
}

TEST(SumRoom, WithoutOneSumsAreZerosOfTheirOwn) {
  const auto x = torch::randn({4, 3});
  EXPECT_FALSE(take_sum_room(x).defined());
  const SumRoom room(x.flatten(), torch::zeros({12}), 100);  // on a CPU it has nothing to give
  EXPECT_FALSE(take_sum_room(x).defined());
  EXPECT_TRUE(torch::equal(sums_like(x, {}), torch::zeros({4, 3})));
  EXPECT_FALSE(sums_like({}, {}).defined());
  EXPECT_TRUE(sums_like(x, x).is_alias_of(x));
}

TEST(SumRoom, OnAGpuPiecesAreZeroApartAndEndWithTheRoom) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const auto x = torch::randn({4, 3}, torch::kCUDA), values = torch::randn({5}, torch::kCUDA);
  {
    const SumRoom room(values, torch::zeros_like(values), 30);
    const auto first = take_sum_room(x), second = take_sum_room(x);
    ASSERT_TRUE(first.defined() && second.defined());
    first.add_(1);
    EXPECT_EQ(second.abs().max().item<float>(), 0);
    EXPECT_FALSE(take_sum_room(x).defined()) << "only 6 of 30 are left";
    EXPECT_FALSE(take_sum_room(torch::randn({2})).defined()) << "another device";
    EXPECT_FALSE(take_sum_room(torch::Tensor()).defined());
  }
  EXPECT_FALSE(take_sum_room(x).defined());
}

TEST(SumRoom, OnAGpuParametersHaveThePlaceOfTheirGradient) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const auto values = torch::randn({20}, torch::kCUDA), gradients = torch::zeros_like(values);
  const auto parameter = values.slice(0, 5, 11).view({2, 3});
  EXPECT_FALSE(gradient_place(parameter).defined()) << "no room yet";
  const SumRoom room(values, gradients, 6);
  gradient_place(parameter).fill_(7);
  EXPECT_EQ(gradients.sum().item<float>(), 42);
  EXPECT_EQ(gradients.slice(0, 5, 11).min().item<float>(), 7);
  EXPECT_FALSE(gradient_place(torch::randn({2, 3}, torch::kCUDA)).defined()) << "no parameter";
  const auto [sum, gradient] = parameter_sum(parameter, gradient_place(parameter));
  EXPECT_TRUE(sum.is_alias_of(gradients));
  EXPECT_FALSE(gradient.defined()) << "autograd would add it a second time";
}

TEST(SumRoom, OnAGpuProductsForWeightsAreAddedWhenItIsFinished) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const auto half = torch::TensorOptions(torch::kBFloat16).device(torch::kCUDA);
  const auto values = torch::randn({6 * 16 * 24}, torch::kCUDA);
  const auto gradients = torch::zeros_like(values);
  SumRoom room(values, gradients, 0);
  std::vector<Tensor> wanted;
  for (int64_t i = 0; i < 6; ++i) {  // more than one launch's
    const auto dy = torch::randn({100 + i / 4, 16}, half),
               x = torch::randn({100 + i / 4, 24}, half);
    weight_gradients()->add(dy, x, gradients.slice(0, i * 384, (i + 1) * 384).view({16, 24}));
    wanted.push_back(dy.to(torch::kFloat32).t().mm(x.to(torch::kFloat32)).flatten());
  }
  bool after = false;
  weight_gradients()->then([&](kernels::Stream) { after = true; }, {});
  room.finish();
  EXPECT_TRUE(after);
  EXPECT_LT((gradients - torch::cat(wanted)).abs().max().item<float>(), 1e-3);
}

}  // namespace
}  // namespace geores
