#include "geores/ops/gradients/step_parameters.h"

#include <gtest/gtest.h>

#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

// Two parameters in one buffer, with the layout of FlatParameters.
struct Flat {
  Tensor values, gradients, weight, bias;
  StepParameters step;

  explicit Flat(const torch::Device& device = torch::kCPU)
      : values(torch::randn({20}).to(device)),
        gradients(torch::zeros_like(values)),
        weight(values.slice(0, 0, 15).view({5, 3}).detach().requires_grad_(true)),
        bias(values.slice(0, 15, 20).detach().requires_grad_(true)),
        step({weight, bias}, gradients) {}

  Execution execution() {
    auto collecting = geores::execution();
    collecting.precision = Precision::bf16;
    collecting.parameters = &step;
    return collecting;
  }
};

TEST(StepParameters, ProductsTakeTheCopyOfAParameterOrOfAPartOfIt) {
  Flat flat;
  const auto copy = flat.values.to(torch::kBFloat16);
  flat.step.set_product_values(copy);
  const ExecutionScope scope(flat.execution());
  const auto rows = flat.weight.slice(0, 1, 3), other = torch::randn({5, 3});
  {
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(for_product(flat.weight).is_alias_of(copy));
    EXPECT_TRUE(torch::equal(for_product(flat.bias), flat.bias.to(torch::kBFloat16)));
    EXPECT_TRUE(for_product(rows).is_alias_of(copy));
    EXPECT_TRUE(torch::equal(for_product(rows), rows.to(torch::kBFloat16)));
    EXPECT_FALSE(for_product(flat.weight.t()).is_alias_of(copy)) << "not in its order";
    EXPECT_TRUE(torch::equal(for_product(flat.weight.t()), flat.weight.t().to(torch::kBFloat16)));
    EXPECT_FALSE(for_product(other).is_alias_of(copy)) << "no parameter";
    EXPECT_FALSE(for_product(flat.weight.clone()).is_alias_of(copy)) << "no parameter any more";
  }
  EXPECT_FALSE(for_product(flat.weight).is_alias_of(copy)) << "a copy has no gradient";
  flat.step.set_product_values({});
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(for_product(flat.weight).is_alias_of(copy));
}

TEST(StepParameters, OnACpuAutogradCarriesAllGradients) {
  Flat flat;
  EXPECT_FALSE(gradient_slot(flat.weight).defined()) << "no step is under way";
  const ExecutionScope scope(flat.execution());
  flat.step.begin_pass();
  EXPECT_FALSE(gradient_slot(flat.weight).defined());
  EXPECT_FALSE(take_zeros({3}, flat.values).defined());
  EXPECT_FALSE(make_gradient_slot(torch::randn({3})).defined());
  EXPECT_EQ(weight_gradients().get(), nullptr);
  const auto [sum, gradient] = parameter_sum(flat.weight, {});
  EXPECT_TRUE(torch::equal(sum, torch::zeros({5, 3})));
  EXPECT_TRUE(gradient.is_same(sum));
  EXPECT_FALSE(parameter_sum({}, {}).sum.defined());
  flat.step.end_pass();
}

TEST(StepParameters, KnowsHooksOfBothKinds) {
  Flat flat;
  EXPECT_FALSE(StepParameters::has_hook(flat.weight));
  flat.weight.register_hook([](const Tensor& gradient) { return gradient; });
  EXPECT_TRUE(StepParameters::has_hook(flat.weight));
  EXPECT_FALSE(StepParameters::has_hook(flat.bias));
}

TEST(StepParameters, OnAGpuAParameterHasASlotForItsGradientInAPass) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  Flat flat(gpu());
  const ExecutionScope scope(flat.execution());
  EXPECT_FALSE(gradient_slot(flat.weight).defined()) << "no pass yet";
  flat.step.begin_pass();
  gradient_slot(flat.bias).fill_(7);
  EXPECT_EQ(flat.gradients.sum().item<float>(), 35);
  EXPECT_EQ(flat.gradients.slice(0, 15).min().item<float>(), 7);
  gradient_slot(flat.weight.slice(0, 1, 2)).fill_(1);
  EXPECT_EQ(flat.gradients.slice(0, 3, 6).sum().item<float>(), 3) << "a part of a parameter";
  EXPECT_FALSE(gradient_slot(flat.weight.t()).defined());
  EXPECT_FALSE(gradient_slot(torch::randn({5, 3}, gpu())).defined()) << "no parameter";
  const auto [sum, gradient] = parameter_sum(flat.weight, gradient_slot(flat.weight));
  EXPECT_TRUE(sum.is_alias_of(flat.gradients));
  EXPECT_FALSE(gradient.defined()) << "autograd would add it a second time";
  const auto other = gradient_slot(flat.bias);
  const auto before = other._version();
  sum.add_(1);
  EXPECT_EQ(other._version(), before) << "autograd would refuse the saved tensors of the others";
  flat.step.end_pass();
  EXPECT_FALSE(gradient_slot(flat.weight).defined()) << "the pass has ended";

  flat.weight.register_hook([](const Tensor& x) { return x; });
  flat.step.begin_pass();
  EXPECT_FALSE(gradient_slot(flat.weight).defined()) << "its hook waits for autograd";
  EXPECT_TRUE(gradient_slot(flat.bias).defined());
  flat.step.end_pass();
}

TEST(StepParameters, OnAGpuZerosAreApartAndEndWithThePass) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  Flat flat(gpu());
  const ExecutionScope scope(flat.execution());
  flat.step.begin_pass();
  const auto first = take_zeros({3, 2}, flat.values), second = take_zeros({6}, flat.values);
  ASSERT_TRUE(first.defined() && second.defined());
  first.add_(1);
  EXPECT_EQ(second.abs().max().item<float>(), 0);
  EXPECT_FALSE(take_zeros({6}, flat.values).defined()) << "only 4 of 20 are left";
  EXPECT_FALSE(take_zeros({2}, flat.values.to(torch::kFloat64)).defined()) << "another type";

  auto made = torch::randn({2}, gpu()).to(torch::kBFloat16);
  const auto slot = make_gradient_slot(made);
  ASSERT_TRUE(slot.defined());
  EXPECT_TRUE(gradient_slot(made).is_alias_of(slot));
  EXPECT_FALSE(gradient_slot(made.clone()).defined());
  flat.step.end_pass();
  EXPECT_FALSE(take_zeros({2}, flat.values).defined());
  flat.step.begin_pass();
  EXPECT_FALSE(gradient_slot(made).defined()) << "of another pass";
  EXPECT_EQ(take_zeros({6}, flat.values).abs().max().item<float>(), 0) << "cleared again";
  flat.step.end_pass();
}

TEST(StepParameters, OnAGpuProductsForWeightsAreAddedWhenThePassEnds) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const auto half = torch::TensorOptions(torch::kBFloat16).device(gpu());
  const auto weights = torch::randn({6, 16, 24}, gpu()).requires_grad_(true);
  const auto gradients = torch::zeros({weights.numel()}, gpu());
  StepParameters step({weights}, gradients);
  Execution collecting;
  collecting.parameters = &step;
  const ExecutionScope scope(collecting);
  step.begin_pass();
  std::vector<Tensor> wanted;
  for (int64_t i = 0; i < 6; ++i) {  // more than fit in one launch
    const auto dy = torch::randn({100 + i / 4, 16}, half),
               x = torch::randn({100 + i / 4, 24}, half);
    weight_gradients()->add(dy, x, gradient_slot(weights.slice(0, i, i + 1)).view({16, 24}));
    wanted.push_back(dy.to(torch::kFloat32).t().mm(x.to(torch::kFloat32)).flatten());
  }
  bool after = false;
  weight_gradients()->then([&](kernels::CudaStream) { after = true; }, {});
  step.end_pass();
  EXPECT_TRUE(after);
  EXPECT_LT((gradients - torch::cat(wanted)).abs().max().item<float>(), 1e-3);
}

}  // namespace
}  // namespace geores
