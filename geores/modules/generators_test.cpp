#include "geores/modules/generators.h"

#include <gtest/gtest.h>

#include "geores/ops/run/execution.h"
#include "geores/testing/gradient_check.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

std::vector<std::string> names_of(const Generators& generators) {
  std::vector<std::string> names;
  for (const auto& parameter : generators.named_parameters()) names.push_back(parameter.key());
  return names;
}

TEST(Generators, EachKindHasItsOwnPartsAndOneBias) {
  const auto bias = torch::randn({3});
  using Names = std::vector<std::string>;
  const Names perceptron = {"hidden.weight", "hidden.bias", "output.weight", "output.bias"};
  EXPECT_EQ(names_of(Generators("perceptron", 8, 5, bias)), perceptron);
  EXPECT_EQ(names_of(Generators("linear", 8, 5, bias)), (Names{"linear.weight", "linear.bias"}));
  auto both = perceptron;
  both.push_back("linear.weight");
  EXPECT_EQ(names_of(Generators("both", 8, 5, bias)), both);
  EXPECT_EQ(refusal([&] { Generators("cubic", 8, 5, bias); }),
            "[generators] must be perceptron, linear or both, got 'cubic'");
}

TEST(Generators, StartAtTheirBias) {
  const auto bias = torch::randn({3});
  for (const auto& kind : generator_names())
    EXPECT_LT((Generators(kind, 8, 5, bias).forward(torch::randn({64, 8})) - bias)
                  .abs()
                  .max()
                  .item<double>(),
              0.02)
        << kind;
}

TEST(Generators, LinearOnesAreLinearAndPerceptronsAreNot) {
  const auto x = torch::randn({16, 8}, torch::kFloat64);
  const auto bend = [&](const char* kind) {
    Generators generators(kind, 8, 5, torch::zeros({3}));
    generators.to(torch::kFloat64);
    const auto once = generators.forward(x);
    return ((generators.forward(2 * x) - 2 * once).norm() / once.norm()).item<double>();
  };
  EXPECT_LT(bend("linear"), 1e-12);
  EXPECT_GT(bend("perceptron"), 1e-3);
  EXPECT_GT(bend("both"), 1e-3);
}

TEST(Generators, GradientsAgreeWithDifferencesInBothForms) {
  for (const auto form : {Form::composed, Form::fused})
    for (const auto& kind : generator_names()) {
      const ExecutionScope scope(form);
      Generators generators(kind, 8, 5, torch::randn({3}));
      generators.to(torch::kFloat64);
      auto x = torch::randn({2, 7, 8}, torch::TensorOptions(torch::kFloat64).requires_grad(true));
      std::vector<std::pair<std::string, Tensor>> inputs = {{"x", x}};
      for (const auto& parameter : generators.named_parameters()) {
        const torch::NoGradGuard no_grad;
        parameter.value().normal_();  // at the start most gradients are too small to compare
        inputs.emplace_back(parameter.key(), parameter.value());
      }
      const auto check = check_gradients([&] { return generators.forward(x); }, inputs);
      EXPECT_LT(check.error, 1e-7) << kind << ": " << check.worst;
    }
}

}  // namespace
}  // namespace geores
