#include "geores/residual/jpmhc/expanded.h"

#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/manifold/grassmann.h"
#include "geores/residual/registry.h"

namespace geores {
namespace {

nlohmann::json expanded(const std::string& mixer) {
  return {{"layout", "expand"}, {"mixer", mixer}};
}

// Nothing but H_res differs from mhc, and what is orthogonal starts as mhc without its mixer.
TEST(ExpandedJpmhc, StartsAsMhcWithoutAMixer) {
  const auto x = torch::randn({2, 3, 4, 6}, torch::kFloat64);
  const auto out = [&](const char* name, const nlohmann::json& options) {
    const auto residual =
        make_residual(name, {.width = 6, .streams = 4, .index = 2, .options = options});
    residual->to(torch::kFloat64);
    Trace trace;
    return residual->forward(
        x, [](const Tensor& h) { return torch::tanh(2 * h); }, trace);
  };
  const auto wanted = out("mhc", {{"mixer", "identity"}});
  for (const auto* mixer : {"cayley", "cayley_exact", "reflections", "quaternions"})
    EXPECT_LT((out("jpmhc", expanded(mixer)) - wanted).abs().max().item<double>(), 1e-14) << mixer;
}

// With W = 0 the mixer is that of the bias, the same for all tokens.
Tensor mixer_of_bias(const std::string& mixer, const Tensor& bias) {
  const auto n = bias.size(0);
  const auto residual =
      make_residual("jpmhc", {.width = 6, .streams = n, .options = expanded(mixer)});
  residual->to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    residual->named_parameters()["res.bias"].copy_(bias);
  }
  Trace trace(/*probing=*/true);
  residual->forward(
      torch::randn({1, 1, n, 6}, torch::kFloat64), [](const Tensor& h) { return h; }, trace);
  return trace.probes().at(0).second[0][0];
}

TEST(ExpandedJpmhc, CayleyMixersAreThoseOfSkewLogits) {
  torch::manual_seed(8);
  for (const int64_t n : {2, 3, 4, 5, 8}) {
    const auto bias = 4 * torch::randn({n, n}, torch::kFloat64);
    const auto w = 0.1 * (bias - bias.t()), one = torch::eye(n, torch::kFloat64);
    const auto exact = torch::linalg_solve(one - 0.5 * w, one + 0.5 * w);
    EXPECT_LT((mixer_of_bias("cayley_exact", bias) - exact).abs().max().item<double>(), 1e-13) << n;
    const auto once = one + 0.5 * w.matmul(2 * one + w);
    const auto twice = one + 0.5 * w.matmul(one + once);
    EXPECT_LT((mixer_of_bias("cayley", bias) - twice).abs().max().item<double>(), 1e-13) << n;
  }
}

TEST(ExpandedJpmhc, RefusesWhatItCannotDo) {
  const auto refusal = [](const char* name, const ResidualConfig& config) -> std::string {
    try {
      make_residual(name, config);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refusal("jpmhc", {.width = 8, .options = {{"mixer", "quaternions"}}}),
            "[jpmhc] mixer quaternions needs layout expand");
  EXPECT_EQ(refusal("jpmhc", {.width = 8, .streams = 3, .options = expanded("quaternions")}),
            "[jpmhc] mixer quaternions needs 4 streams, got 3");
  EXPECT_EQ(refusal("jpmhc", {.width = 8, .options = expanded("sinkhorn")}),
            "[jpmhc] mixer sinkhorn has no layout expand: connection mhc has sinkhorn and identity "
            "there");
  EXPECT_EQ(refusal("jpmhc", {.width = 8, .streams = 1, .options = expanded("reflections")}),
            "[jpmhc] mixer reflections needs at least 2 streams, got 1");
}

// The step that runs is the one that manifold/grassmann.h defines.
TEST(Grassmann, StepIsThatOfTheManifold) {
  torch::manual_seed(5);
  for (const auto& options : {nlohmann::json{{"mixer", "grassmann"}},
                              nlohmann::json{{"mixer", "grassmann"}, {"layout", "expand"}}}) {
    const auto residual = make_residual("jpmhc", {.width = 16, .streams = 4, .options = options});
    residual->to(torch::kFloat64);
    auto u = residual->manifold_parameters().at(0);
    using Matrix = manifold::Matrix<double, 4, 2>;
    const auto matrix = [](const Tensor& x) {
      Matrix m{};
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) m(i, j) = x[i][j].item<double>();
      return m;
    };
    {
      torch::NoGradGuard no_grad;
      u.copy_(orthonormal_factor(u));  // the start was rounded to float32
    }
    auto wanted = matrix(u);
    manifold::GrassmannState<double, 4, 2> state;
    for (int step = 0; step < 20; ++step) {
      const auto gradient = torch::randn({4, 2}, torch::kFloat64);
      u.mutable_grad() = gradient;
      residual->manifold_step();
      manifold::grassmann_step(wanted, matrix(gradient), state);
      ASSERT_LE(manifold::largest_entry(matrix(u) - wanted), 1e-12) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace geores
