#include "geores/ops/mixers/isometry.h"

#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/testing/gradient_check.h"

namespace geores {
namespace {

constexpr IsometryFactor kAll[] = {IsometryFactor::reflections, IsometryFactor::unitary,
                                   IsometryFactor::cayley};

Tensor random_generators(IsometryFactor factor, int64_t n, int64_t count, double scale,
                         at::IntArrayRef batch, torch::ScalarType type = torch::kFloat64) {
  auto shape = batch.vec();
  shape.push_back(count * manifold::generators_of(factor, static_cast<int>(n)));
  return (scale * torch::randn(shape, torch::kFloat64)).to(type);
}

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

// The Frobenius norm of GᵀG − I, which bounds its 2-norm.
double defect(const Tensor& g) {
  const auto wide = g.to(torch::kFloat64);
  const auto gram = wide.transpose(-1, -2).matmul(wide);
  const auto difference = gram - torch::eye(g.size(-1), gram.options());
  return difference.square().sum({-1, -2}).max().sqrt().item<double>();
}

TEST(IsometryOp, IsOrthogonalInFloat32AtEveryParameter) {
  torch::manual_seed(1);
  for (const auto form : {Form::fused, Form::composed}) {
    const ExecutionScope scope(form);
    for (const auto factor : kAll)
      for (const int64_t n : {2, 3, 4, 8})
        for (const int64_t count : {1, 4})
          for (const double scale : {0.0, 1e-20, 1.0, 1e4}) {
            if (factor == IsometryFactor::unitary && n % 2 == 1) continue;
            const auto raw = random_generators(factor, n, count, scale, {40}, torch::kFloat32);
            EXPECT_LE(defect(isometry(raw, factor, n)), 2e-6)
                << static_cast<int>(factor) << " n " << n << " factors " << count << " scale "
                << scale;
          }
  }
}

TEST(IsometryOp, FusedEqualsComposedWithGradients) {
  torch::manual_seed(2);
  for (const auto& device : devices())
    for (const auto type : {torch::kFloat64, torch::kFloat32})
      for (const auto factor : kAll)
        for (const int64_t n : {2, 4, 8})
          for (const int64_t count : {1, 3}) {
            const auto raw = random_generators(factor, n, count, 1.0, {3, 5}, type).to(device);
            const auto cotangent = torch::randn({3, 5, n, n}, raw.options());
            const auto run = [&](Form form) {
              const ExecutionScope scope(form);
              const auto leaf = raw.clone().requires_grad_(true);
              const auto g = isometry(leaf, factor, n);
              return std::vector<Tensor>{g.detach(),
                                         torch::autograd::grad({(g * cotangent).sum()}, {leaf})[0]};
            };
            const auto fused = run(Form::fused), composed = run(Form::composed);
            const auto tolerance = type == torch::kFloat64 ? 1e-12 : 2e-6;
            for (size_t i = 0; i < 2; ++i)
              EXPECT_LE(largest(fused[i] - composed[i]),
                        tolerance * std::max(1.0, largest(composed[i])))
                  << static_cast<int>(factor) << " n " << n << " factors " << count;
          }
}

TEST(IsometryOp, GradientsEqualFiniteDifferences) {
  torch::manual_seed(3);
  for (const auto form : {Form::fused, Form::composed}) {
    const ExecutionScope scope(form);
    for (const auto factor : kAll) {
      const auto raw = random_generators(factor, 4, 2, 1.0, {3}).requires_grad_(true);
      EXPECT_LT(check_gradients([&] { return isometry(raw, factor, 4); }, {{"raw", raw}}).error,
                1e-8)
          << static_cast<int>(factor);
    }
  }
}

// Reference values from complex arithmetic and Gaussian elimination, independent of this library.
TEST(IsometryOp, EqualsIndependentComputations) {
  struct Golden {
    IsometryFactor factor;
    std::vector<double> raw, matrix;
  };
  const std::vector<Golden> goldens = {
      {IsometryFactor::unitary,
       {0.3, -1.2, 0.7, 0.5, 1.9, -0.4, 0.8, 0.1, 1.1, -0.6},
       {0.55102149193356009, 0.75277282488434849, -0.17728935606270008, -0.31349142535295094,
        -0.50343307783392355, 0.31822621386075756, 0.6414818281111706, -0.48351657381899577,
        0.17728935606270008, 0.31349142535295094, 0.55102149193356009, 0.75277282488434849,
        -0.6414818281111706, 0.48351657381899577, -0.50343307783392355, 0.31822621386075756}},
      {IsometryFactor::reflections,
       {0.3, -1.2, 0.7, 0.5, -0.4, 0.8, 0.1, 1.1},
       {0.81044183713525553, 0.53770663409953334, -0.1574562742617874, 0.17106468356086707,
        0.44140096829066167, -0.51716317006149948, 0.70903301783922879, 0.187028394469403,
        -0.033061455925328234, 0.43616696471409255, 0.53029179569939378, -0.72626161294543545,
        0.3837396955554585, -0.50316221049417698, -0.43734461551882053, -0.63898460330614548}},
      {IsometryFactor::cayley,
       {0.6, -2.4, 1.4, 1.0, -0.8, 1.6},
       {0.0043849979177386089, 0.24105239950025709, 0.36549815046177225, -0.89904705911173166,
        0.62124886700472803, 0.74909972808113456, 0.050464221846598656, 0.22439430685186551,
        -0.76725214962886756, 0.61585948408907187, -0.14749761152348062, 0.10141838759462038,
        -0.15923176796256838, -0.038215624311016383, 0.91766492736581662, 0.36204404595673789}}};
  for (const auto form : {Form::fused, Form::composed}) {
    const ExecutionScope scope(form);
    for (const auto& golden : goldens) {
      const auto expected = torch::tensor(golden.matrix, torch::kFloat64).view({4, 4});
      EXPECT_LE(largest(isometry(torch::tensor(golden.raw, torch::kFloat64), golden.factor, 4) -
                        expected),
                1e-14)
          << static_cast<int>(golden.factor);
    }
  }
}

TEST(IsometryOp, RefusesWhatDoesNotFit) {
  const auto message = [](const Tensor& raw, IsometryFactor factor, int64_t n) -> std::string {
    try {
      isometry(raw, factor, n);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(torch::zeros({3, 7}), IsometryFactor::reflections, 4),
            "[isometry] 7 generators are not a multiple of the 8 of one factor");
  EXPECT_EQ(message(torch::zeros({3, 4}), IsometryFactor::unitary, 3),
            "[isometry] unitary needs an even number of streams, got 3");
}

}  // namespace
}  // namespace geores
