// Products in bfloat16 on a CPU, and the functions that return types.
#include "geores/ops/run/precision.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "geores/base/error.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

TEST(Precision, OnlyBfloat16RoundsWhatGoesIntoAProduct) {
  const auto x = torch::randn({3, 5}), wide = torch::randn({3}, torch::kFloat64);
  for (const char* precision : {"fp32", "tf32"}) {
    const ExecutionScope scope(precision_from(precision));
    EXPECT_TRUE(for_product(x).is_same(x)) << precision;
    EXPECT_EQ(product_type(torch::kFloat32), torch::kFloat32) << precision;
  }
  {
    const ExecutionScope scope(Precision::bf16);
    EXPECT_TRUE(torch::equal(for_product(x), x.to(torch::kBFloat16)));
    EXPECT_TRUE(for_product(wide).is_same(wide)) << "float64 is for verification";
    EXPECT_EQ(product_type(torch::kFloat32), torch::kBFloat16);
    EXPECT_EQ(product_type(torch::kFloat64), torch::kFloat64);
    const ExecutionScope inner(Precision::fp32);
    EXPECT_FALSE(products_in_bfloat16());
  }
  EXPECT_FALSE(products_in_bfloat16()) << "a scope ends";
  EXPECT_THROW(precision_from("fp16"), Error);
}

TEST(Precision, AStateIsRoundedOnAGpuWhereThatIsWanted) {
  const auto x = torch::randn({3, 5});
  const ExecutionScope scope(Precision::bf16_state);
  EXPECT_TRUE(products_in_bfloat16());
  EXPECT_TRUE(in_state_type(x).is_same(x)) << "a CPU has no such kernels";
  EXPECT_TRUE(in_full_type(x).is_same(x));
  EXPECT_EQ(in_full_type(x.to(torch::kBFloat16)).scalar_type(), torch::kFloat32);
  EXPECT_EQ(full_type(torch::kFloat64), torch::kFloat64);
  if (!has_gpu()) return;
  const auto there = x.to(gpu()), wide = there.to(torch::kFloat64);
  EXPECT_EQ(in_state_type(there).scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(in_state_type(wide).is_same(wide)) << "float64 is for verification";
  const ExecutionScope products(Precision::bf16);
  EXPECT_TRUE(in_state_type(there).is_same(there));
}

TEST(Precision, Float32ProductsOnAGpuMayDropDigitsUnlessAskedNotTo) {
  const auto before = at::globalContext().float32MatmulPrecision();
  set_float32_products(Precision::fp32);
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  for (const auto precision : {Precision::tf32, Precision::bf16}) {
    set_float32_products(precision);
    EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  }
  at::globalContext().setFloat32MatmulPrecision(
      before == at::Float32MatmulPrecision::HIGHEST ? "highest" : "high");
}

Tensor rounded(const Tensor& x) { return x.to(torch::kBFloat16).to(torch::kFloat64); }

// A tolerance of 1e-5 of the whole: far below bfloat16's 4e-3, and enough for a float32 value that
// falls on the other side of a tie.
void expect_close(const Tensor& is, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(is.sizes(), wanted.sizes()) << what;
  EXPECT_LT((is - wanted).norm().item<double>(), 1e-5 * wanted.norm().item<double>()) << what;
}

struct Gradients {
  Tensor y;
  std::vector<Tensor> of;
};

// y = f(leaves) in bfloat16 and its gradients along dy, after the scope has ended.
Gradients in_bfloat16(const std::vector<Tensor>& leaves, const std::function<Tensor()>& f,
                      const Tensor& dy) {
  Tensor y;
  {
    const ExecutionScope scope(Precision::bf16);
    y = f();
  }
  return {y.detach(), torch::autograd::grad({y}, leaves, {dy})};
}

Tensor leaf(at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(true); }

TEST(Bfloat16, LinearMapsAreProductsOfRoundedFactors) {
  torch::manual_seed(1);
  for (const int64_t rows : {1, 3, 17, 129})
    for (const auto& [in, out] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {17, 3}, {40, 129}}) {
      const auto x = leaf({rows, in}), w = leaf({out, in}), b = leaf({out});
      const auto dy = torch::randn({rows, out});
      const auto is = in_bfloat16(
          {x, w, b}, [&] { return linear_map(x, w, b); }, dy);
      const auto what = std::to_string(rows) + " rows, " + std::to_string(in) + " values";
      expect_close(is.y, rounded(x).matmul(rounded(w).t()) + b, what);
      expect_close(is.of[0], rounded(dy).matmul(rounded(w)), what);
      expect_close(is.of[1], rounded(dy).t().matmul(rounded(x)), what);
      expect_close(is.of[2], dy.sum(0), what + ", the bias is no product");
    }
}

TEST(Bfloat16, PerceptronsRoundTheirHiddenLayerToo) {
  torch::manual_seed(2);
  for (const int64_t rows : {1, 3, 17, 257}) {
    const auto x = leaf({rows, 9}), up = leaf({33, 9}), down = leaf({7, 33});
    const auto dy = torch::randn({rows, 7});
    const auto is = in_bfloat16(
        {x, up, down}, [&] { return perceptron(x, up, down); }, dy);
    const auto hidden = rounded(x).matmul(rounded(up).t()).requires_grad_(true);
    const auto active = torch::gelu(hidden);
    const auto what = std::to_string(rows) + " rows";
    expect_close(is.y, rounded(active).matmul(rounded(down).t()), what);
    expect_close(is.of[2], rounded(dy).t().matmul(rounded(active)), what);
    const auto dhidden =
        rounded(torch::autograd::grad({active}, {hidden}, {rounded(dy).matmul(rounded(down))})[0]);
    expect_close(is.of[0], dhidden.matmul(rounded(up)), what);
    expect_close(is.of[1], dhidden.t().matmul(rounded(x)), what);
  }
}

TEST(Bfloat16, NormsBeforeAProjectionStayInFloat32) {
  torch::manual_seed(3);
  for (const bool layer : {true, false})
    for (const int64_t rows : {1, 3, 17, 129}) {
      const auto x = leaf({rows, 37}), w = leaf({5, 37}), b = leaf({5});
      const auto dy = torch::randn({rows, 5});
      const NormSpec plain{.layer = layer};
      const auto is = in_bfloat16(
          {x, w, b}, [&] { return normalized_linear(x, plain, w, b).projected; }, dy);
      const auto wide = x.detach().to(torch::kFloat64).requires_grad_(true);
      const auto mean = layer ? wide.mean(-1, true) : torch::zeros({}, torch::kFloat64);
      const auto z =
          (wide - mean) * ((wide - mean).square().mean(-1, true) + (layer ? 1e-5 : 1e-6)).rsqrt();
      const auto what = std::to_string(rows) + (layer ? " rows, layer" : " rows, rms");
      expect_close(is.y, rounded(z).matmul(rounded(w).t()) + b, what);
      expect_close(is.of[0],
                   torch::autograd::grad({z}, {wide}, {rounded(dy).matmul(rounded(w))})[0], what);
      expect_close(is.of[1], rounded(dy).t().matmul(rounded(z)), what);
    }
}

TEST(Bfloat16, LeavesFloat64AsItIs) {
  torch::manual_seed(4);
  const auto x = torch::randn({30, 8}, torch::kFloat64), w = torch::randn({5, 8}, torch::kFloat64);
  const ExecutionScope scope(Precision::bf16);
  EXPECT_LT((linear_map(x, w) - x.matmul(w.t())).abs().max().item<double>(), 1e-13);
}

TEST(Precision, OnlyLargeProductsOfThisThreadGoToBfloat16) {
  const auto x = torch::randn({2, 3});
  EXPECT_EQ(for_product(x).scalar_type(), torch::kFloat32);
  {
    const ExecutionScope scope(Precision::bf16);
    EXPECT_EQ(for_product(x).scalar_type(), torch::kBFloat16);
    EXPECT_EQ(for_product(x.to(torch::kFloat64)).scalar_type(), torch::kFloat64);
    EXPECT_FALSE(for_product(Tensor()).defined());
    EXPECT_TRUE(runs_cpu_kernel(x)) << "a product rounds its factors by itself";
    const auto mixed = mix_streams(torch::eye(2), x);
    EXPECT_TRUE(torch::equal(mixed, x)) << "operators on streams stay in float32";
    const ExecutionScope inner(Precision::fp32);
    EXPECT_FALSE(products_in_bfloat16());
    std::thread([] { EXPECT_FALSE(products_in_bfloat16()); }).join();
  }
  EXPECT_FALSE(products_in_bfloat16());
  EXPECT_THROW(precision_from("fp8"), Error);
}

}  // namespace
}  // namespace geores
