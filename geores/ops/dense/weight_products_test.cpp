// Batched products of weights against their definition, forward and backward.
#include "geores/ops/dense/weight_products.h"

#include <gtest/gtest.h>

#include <array>

#include "geores/kernels/dense/weight_gradient.h"
#include "geores/kernels/dense/weight_products.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

using Sizes = std::array<int64_t, 3>;  // rows, inner, columns

double relative_error(const Tensor& is, const Tensor& wanted) {
  const auto difference = is.to(torch::kFloat64) - wanted.to(torch::kFloat64);
  return difference.norm().item<double>() / (wanted.to(torch::kFloat64).norm().item<double>());
}

// A factor in bfloat16, whose sums are exact.
Tensor in_bfloat16(const Tensor& x) { return x.detach().to(torch::kBFloat16).to(torch::kFloat64); }

// Pairs of parameters one after the other in a buffer, as in a model, and another buffer for their
// gradients; `begin` values before the first.
struct Parameters {
  Tensor values, gradients;
  std::vector<WeightFactors> pairs, slots;
  std::vector<Tensor> all;

  Parameters(const std::vector<Sizes>& sizes, int64_t begin, const torch::Device& device) {
    int64_t count = begin;
    for (const auto& [rows, inner, columns] : sizes) count += rows * inner + inner * columns;
    values = 0.1 * torch::randn({count}).to(device);
    gradients = torch::zeros_like(values);
    if (begin > 0) all.push_back(values.slice(0, 0, begin).detach().requires_grad_(true));
    int64_t used = begin;
    for (const auto& [rows, inner, columns] : sizes) {
      const auto a = parts(used, rows, inner), b = parts(used + rows * inner, inner, columns);
      used += rows * inner + inner * columns;
      pairs.emplace_back(a.first, b.first);
      slots.emplace_back(a.second, b.second);
      all.insert(all.end(), {a.first, b.first});
    }
  }

  // pass() as a training step runs it.
  template <class Pass>
  void in_a_step(Pass&& pass) const {
    StepParameters step(all, gradients);
    step.set_product_values(values.to(torch::kBFloat16));
    auto collecting = execution();
    collecting.parameters = &step;
    const ExecutionScope scope(collecting);
    step.begin_pass();
    pass();
    step.end_pass();
  }

 private:
  std::pair<Tensor, Tensor> parts(int64_t begin, int64_t rows, int64_t columns) const {
    const auto of = [&](const Tensor& flat) {
      return flat.slice(0, begin, begin + rows * columns).view({rows, columns}).detach();
    };
    return {of(values).requires_grad_(true), of(gradients)};
  }
};

// Odd multiples of 8, sizes of models, one that the kernels do not support, one whose gradient uses
// the BLAS, more than fit in one launch.
std::vector<Sizes> various_sizes() {
  std::vector<Sizes> sizes = {{40, 24, 72},    {8, 8, 8},       {384, 128, 128},
                              {128, 128, 512}, {552, 184, 184}, {184, 184, 736},
                              {20, 12, 20},    {64, 264, 136},  {1544, 184, 184}};
  while (sizes.size() < kernels::kMostWeightProducts + 3) sizes.push_back({16, 40, 24});
  return sizes;
}

// Without fusion the products are the plain ones, in full precision.
TEST(WeightProducts, OnACpuTheyAreTheSameProducts) {
  torch::manual_seed(1);
  const Parameters parameters({{24, 16, 8}, {8, 8, 40}}, 3, torch::kCPU);
  for (const auto* precision : {"fp32", "bf16"}) {
    const ExecutionScope scope(precision_from(precision));
    const auto products = weight_products(parameters.pairs);
    for (size_t i = 0; i < products.size(); ++i) {
      const auto& [a, b] = parameters.pairs[i];
      const auto &product = products[i], wanted = a.matmul(b);
      EXPECT_TRUE(torch::equal(product, wanted));
      const auto d = torch::randn_like(wanted);
      const auto is = torch::autograd::grad({product}, {a, b}, {d}),
                 composed = torch::autograd::grad({wanted}, {a, b}, {d});
      EXPECT_TRUE(torch::equal(is[0], composed[0]) && torch::equal(is[1], composed[1]));
    }
  }
}

// A model that uses a block several times folds its weights once.
TEST(WeightProducts, EqualFactorsAreMultipliedOnce) {
  const Parameters parameters({{24, 16, 8}, {8, 8, 40}}, 0, torch::kCPU);
  const auto& pairs = parameters.pairs;
  const auto products = weight_products({pairs[0], pairs[1], pairs[0]});
  ASSERT_EQ(products.size(), 3u);
  EXPECT_TRUE(products[0].is_same(products[2]));
  EXPECT_TRUE(torch::equal(products[1], pairs[1].first.matmul(pairs[1].second)));
}

// Only our kernels: a race detector fails inside a BLAS.
TEST(WeightProducts, KernelsOnAGpuEqualTheirDefinition) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(5);
  for (const int64_t begin : {0, 3})  // aligned and not
    for (const auto& [rows, inner, columns] : {Sizes{40, 24, 72}, Sizes{184, 264, 136}}) {
      const auto matrix = [&, from = begin](int64_t down, int64_t across) {
        const auto all = torch::randn({from + down * across}).to(torch::kBFloat16);
        return all.to(gpu()).slice(0, from).view({down, across});
      };
      const auto a = matrix(rows, inner), b = matrix(inner, columns);
      const auto product = torch::empty({rows, columns}, a.options());
      const auto d = torch::randn({rows, columns}).to(gpu());
      const auto da = torch::ones(a.sizes(), d.options()), db = torch::ones(b.sizes(), d.options());
      if constexpr (kernels::kHasCuda) {
        using fused::values;
        const kernels::WeightProduct forward{.a = values<kernels::BFloat16>(a),
                                             .b = values<kernels::BFloat16>(b),
                                             .product = values<kernels::BFloat16>(product),
                                             .rows = rows,
                                             .inner = inner,
                                             .columns = columns};
        const kernels::WeightProductGradient back{.a = forward.a,
                                                  .b = forward.b,
                                                  .d = values<float>(d),
                                                  .da = values<float>(da),
                                                  .db = values<float>(db),
                                                  .rows = rows,
                                                  .inner = inner,
                                                  .columns = columns};
        kernels::multiply_weights(fused::current_cuda_stream(), &forward, 1);
        kernels::add_weight_product_gradients(fused::current_cuda_stream(), &back, 1);
      }
      const auto exact = [](const Tensor& x) { return in_bfloat16(x.cpu()); };
      const auto what = std::to_string(rows) + " rows from " + std::to_string(begin);
      EXPECT_LT(relative_error(product.cpu(), exact(a).mm(exact(b))), 3e-3) << what;
      EXPECT_LT(relative_error(da.cpu() - 1, exact(d).mm(exact(b).t())), 1e-5) << what;
      EXPECT_LT(relative_error(db.cpu() - 1, exact(a).t().mm(exact(d))), 1e-5) << what;
    }
}

TEST(WeightProducts, OnAGpuTheyEqualTheirDefinition) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(2);
  const ExecutionScope scope(Precision::bf16);
  for (const int64_t begin : {0, 3}) {  // aligned and not
    const Parameters parameters(various_sizes(), begin, gpu());
    const auto at_once = weight_products(parameters.pairs);
    for (size_t i = 0; i < at_once.size(); ++i) {
      const auto& [a, b] = parameters.pairs[i];
      const auto what = std::to_string(i) + " from " + std::to_string(begin);
      const auto wanted = in_bfloat16(a).mm(in_bfloat16(b));
      ASSERT_EQ(at_once[i].scalar_type(), torch::kBFloat16) << what;
      EXPECT_LT(relative_error(at_once[i], wanted), 3e-3) << what;
      EXPECT_LT(relative_error(weight_products({{a, b}})[0], at_once[i]), 3e-3) << what << " alone";
      const auto d = torch::randn(wanted.sizes(), at_once[i].options());
      const auto gradients =
          torch::autograd::grad({at_once[i]}, {a, b}, {d}, /*retain_graph=*/true);
      EXPECT_LT(relative_error(gradients[0], in_bfloat16(d).mm(in_bfloat16(b).t())), 3e-3) << what;
      EXPECT_LT(relative_error(gradients[1], in_bfloat16(a).t().mm(in_bfloat16(d))), 3e-3) << what;
    }
  }
}

// The sum of autograd's gradient of a parameter and the content of its slot.
Tensor total_gradient(const Tensor& parameter, const Tensor& slot) {
  return parameter.grad().defined() ? slot + parameter.grad() : slot;
}

TEST(WeightProducts, OnAGpuTheirGradientsAreAddedToTheSlotsOfTheFactors) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(3);
  const ExecutionScope scope(Precision::bf16);
  const auto sizes = various_sizes();
  for (const int64_t begin : {0, 3})
    for (const bool at_once : {true, false}) {
      const Parameters parameters(sizes, begin, gpu());
      std::vector<Tensor> x, dy;
      for (const auto& [rows, inner, columns] : sizes) {
        x.push_back(torch::randn({100, columns}, gpu()));
        dy.push_back(torch::randn({100, rows}, gpu()));
      }
      const auto direct = torch::randn({sizes[0][0], sizes[0][2]}, gpu());

      parameters.in_a_step([&] {
        const auto products = at_once ? weight_products(parameters.pairs) : std::vector<Tensor>();
        auto loss = torch::zeros({}, gpu());
        for (size_t i = 0; i < sizes.size(); ++i) {
          const auto w = at_once ? products[i] : weight_products({parameters.pairs[i]})[0];
          for (int use = 0; use < 2; ++use) loss = loss + (linear_map(x[i], w) * dy[i]).sum();
          // Also without a product, so that autograd carries a part of the gradient.
          if (i == 0) loss = loss + (w.to(torch::kFloat32) * direct).sum();
        }
        loss.backward();
      });

      for (size_t i = 0; i < sizes.size(); ++i) {
        const auto& [a, b] = parameters.pairs[i];
        const auto& [da, db] = parameters.slots[i];
        const auto what =
            std::to_string(i) + " from " + std::to_string(begin) + (at_once ? " at once" : "");
        const auto [rows, inner, columns] = sizes[i];
        const bool by_autograd = i == 0 || !kernels::fits_weight_product(rows, inner, columns) ||
                                 !kernels::fits_weight_gradient(rows, columns);
        // The product then adds to the slot of a factor that the side stream does not handle, if it
        // is aligned.
        const auto given = [&](int64_t out, int64_t in, const Tensor& slot) {
          const bool aligned = reinterpret_cast<uintptr_t>(slot.data_ptr()) % 16 == 0;
          return by_autograd && (kernels::fits_weight_gradient(out, in) || !aligned);
        };
        EXPECT_EQ(a.grad().defined(), given(rows, inner, da)) << what;
        EXPECT_EQ(b.grad().defined(), given(inner, columns, db)) << what;
        auto d = 2 * in_bfloat16(dy[i]).t().mm(in_bfloat16(x[i]));
        if (i == 0) d = d + in_bfloat16(direct);
        EXPECT_LT(relative_error(total_gradient(a, da), d.mm(in_bfloat16(b).t())), 6e-3) << what;
        EXPECT_LT(relative_error(total_gradient(b, db), in_bfloat16(a).t().mm(d)), 6e-3) << what;
      }
    }
}

TEST(WeightProducts, OnAGpuAPerceptronTakesThem) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(4);
  const ExecutionScope scope(Precision::bf16);
  const Parameters parameters({{736, 184, 184}, {184, 184, 736}}, 1, gpu());
  const auto x = torch::randn({200, 184}, gpu()), dy = torch::randn_like(x);
  parameters.in_a_step([&] {
    const auto products = weight_products(parameters.pairs);  // up · pre and post · down
    (perceptron(x, products[0], products[1]) * dy).sum().backward();
  });

  std::vector<Tensor> leaves, gradients;
  for (size_t i = 0; i < 2; ++i) {
    const auto& [a, b] = parameters.pairs[i];
    const auto& [da, db] = parameters.slots[i];
    for (const auto& factor : {a, b}) {
      EXPECT_FALSE(factor.grad().defined());
      leaves.push_back(in_bfloat16(factor).requires_grad_(true));
    }
    gradients.insert(gradients.end(), {da, db});
  }
  const auto hidden = torch::gelu(in_bfloat16(x).mm(leaves[0].mm(leaves[1]).t()));
  const auto wanted = torch::autograd::grad({hidden.mm(leaves[2].mm(leaves[3]).t())}, leaves,
                                            {dy.to(torch::kFloat64)});
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_LT(relative_error(gradients[i], wanted[i]), 2e-2) << i;
}

}  // namespace
}  // namespace geores
