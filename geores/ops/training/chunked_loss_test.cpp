#include "geores/ops/training/chunked_loss.h"

#include <gtest/gtest.h>

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
    for (const int64_t vocabulary : {11, 12, 2500}) {
      expect_the_whole_loss(torch::kCPU, type, vocabulary);
      if (torch::cuda::is_available()) expect_the_whole_loss(torch::kCUDA, type, vocabulary);
    }
}

}  // namespace
}  // namespace geores
