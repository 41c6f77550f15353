#include "geores/ops/training/chunked_loss.h"

#include <gtest/gtest.h>

#include "geores/ops/training/loss.h"

namespace geores {
namespace {

TEST(ChunkedLoss, IsTheLossOfTheWholeLogitsWithItsGradients) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    torch::manual_seed(1);
    const auto x = torch::randn({23, 6}, type).requires_grad_(true);
    const auto w = torch::randn({11, 6}, type).requires_grad_(true);
    auto targets = torch::randint(11, {23}, torch::kInt64);
    targets.index_put_({torch::arange(0, 23, 4)}, -1);
    const auto everything = [&](const Tensor& loss) {
      const auto g = torch::autograd::grad({loss * 1.7}, {x, w});
      return std::vector<Tensor>{loss.detach(), g[0], g[1]};
    };
    const auto whole = everything(mean_cross_entropy(x.matmul(w.t()), targets));
    for (const int64_t chunk : {1, 5, 23, 100}) {
      const auto pieces = everything(chunked_cross_entropy(x, w, targets, chunk));
      const auto limit = type == torch::kFloat32 ? 1e-5 : 1e-12;
      for (size_t i = 0; i < whole.size(); ++i)
        EXPECT_LT((pieces[i] - whole[i]).abs().max().item<double>(), limit) << chunk << " " << i;
    }
    torch::NoGradGuard no_grad;
    EXPECT_NEAR(chunked_cross_entropy(x, w, targets, 5).item<double>(), whole[0].item<double>(),
                1e-5);
  }
}

}  // namespace
}  // namespace geores
