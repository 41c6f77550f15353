#include "geores/ops/training/chunked_loss.h"

#include <gtest/gtest.h>

#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/training/loss.h"

namespace geores {
namespace {

void expect_the_whole_loss(const torch::Device& device, torch::ScalarType type,
                           int64_t vocabulary) {
  torch::manual_seed(1);
  const auto random = [&](int64_t rows) {
    return (2 * torch::randn({rows, 6}, type)).to(device).requires_grad_(true);
  };
  const auto x = random(23), w = random(vocabulary);
  auto targets = torch::randint(vocabulary, {23}, torch::kInt64);
  targets.index_put_({torch::arange(0, 23, 4)}, -1);
  targets = targets.to(device);
  const auto everything = [&](const Tensor& loss) {
    const auto g = torch::autograd::grad({loss * 1.7}, {x, w});
    return std::vector<Tensor>{loss.detach(), g[0], g[1]};
  };
  const auto whole = everything(mean_cross_entropy(x.matmul(w.t()), targets));
  const auto limit = type == torch::kFloat32 ? 1e-5 : 1e-12;
  for (const int64_t chunk : {1, 5, 23, 100}) {
    const auto pieces = everything(chunked_cross_entropy(x, w, targets, chunk));
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_LT((pieces[i] - whole[i]).abs().max().item<double>(), limit)
          << device << " " << vocabulary << " " << chunk << " " << i;
  }
  torch::NoGradGuard no_grad;
  EXPECT_NEAR(chunked_cross_entropy(x, w, targets, 5).item<double>(), whole[0].item<double>(),
              1e-5);
}

TEST(ChunkedLoss, IsTheLossOfTheWholeLogitsWithItsGradients) {
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const int64_t vocabulary : {11, 12, 2500, 4100, 20000}) {
      if (vocabulary < 4000) expect_the_whole_loss(torch::kCPU, type, vocabulary);
      if (has_gpu()) expect_the_whole_loss(gpu(), type, vocabulary);
    }
}

// A parameter's gradient is added to its slot, scaled by any incoming gradient.
TEST(ChunkedLoss, OnAGpuInBfloat16IsTheLossOfRoundedFactors) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(2);
  for (const int64_t vocabulary : {12, 4100, 4104, 20000}) {
    const auto w = torch::randn({vocabulary, 16}, gpu()).requires_grad_(true);
    const auto gradients = torch::zeros({w.numel()}, gpu());
    const auto x = torch::randn({23, 16}, gpu()).to(torch::kBFloat16).requires_grad_(true);
    const auto targets = torch::randint(vocabulary, {23}, torch::kInt64).to(gpu());
    StepParameters step({w}, gradients);
    auto collecting = execution();
    collecting.precision = Precision::bf16;
    collecting.parameters = &step;
    Tensor loss;
    {
      const ExecutionScope scope(collecting);
      step.begin_pass();
      loss = chunked_cross_entropy(x, w, targets, 10);
      (loss * 1.7).backward();
      step.end_pass();
    }
    const auto exact = [](const Tensor& t) {
      return t.detach().to(torch::kBFloat16).to(torch::kFloat64).requires_grad_(true);
    };
    const auto x64 = exact(x), w64 = exact(w);
    const auto wanted = mean_cross_entropy(x64.matmul(w64.t()), targets);
    const auto right = torch::autograd::grad({wanted * 1.7}, {x64, w64});
    const auto error = [](const Tensor& is, const Tensor& of) {
      return ((is.to(torch::kFloat64) - of).norm() / of.norm()).item<double>();
    };
    EXPECT_LT(error(loss.detach(), wanted.detach()), 2e-3) << vocabulary;
    EXPECT_LT(error(x.grad(), right[0]), 2e-2) << vocabulary;  // logits up to 16 are rounded, too
    EXPECT_FALSE(w.grad().defined());
    EXPECT_LT(error(gradients.view_as(w), right[1]), 2e-2) << vocabulary;
  }
}

}  // namespace
}  // namespace geores
