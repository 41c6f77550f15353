#include "geores/train/optimizer/muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/model/transformer/transformer.h"
#include "geores/testing/testing.h"
#include "geores/train/optimizer/adamw.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

TEST(Muon, OrthogonalisedMatricesHaveSingularValuesCloseToOne) {
  torch::manual_seed(2);
  for (const auto& [rows, columns] : {std::pair{8, 8}, {5, 40}, {40, 5}}) {
    const auto m = torch::randn({3, rows, columns}, torch::kFloat64) * 1e-3;
    const auto step = orthogonalised(m);
    const auto values = std::get<1>(torch::linalg_svd(step, false));
    EXPECT_GT(values.min().item<double>(), 0.3) << rows;  // one of eight may start very small
    EXPECT_LT(values.max().item<double>(), 1.25) << rows;
    // The same directions: mᵀ step is symmetric and positive.
    const auto product = m.transpose(-2, -1).matmul(step);
    EXPECT_LT((product - product.transpose(-2, -1)).abs().max().item<double>(), 1e-9) << rows;
    EXPECT_LT((orthogonalised(7 * m) - step).abs().max().item<double>(), 1e-9) << "length counts";
  }
  EXPECT_EQ(orthogonalised(torch::zeros({2, 3, 3})).abs().max().item<float>(), 0.0f);
}

std::shared_ptr<Transformer> small_model() {
  torch::manual_seed(4);
  auto model = std::make_shared<Transformer>(TransformerConfig{
      .connection = "edelta", .layers = 2, .width = 16, .heads = 2, .context = 6});
  model->to(torch::kFloat64);
  return model;
}

// Gradients of the step are those of a made-up loss: every parameter against a random tensor.
void set_gradients(FlatParameters& parameters) {
  torch::manual_seed(9);
  parameters.gradients().copy_(torch::randn_like(parameters.gradients()) * 1e-4);
}

TEST(Muon, MovesTheMatricesOfBlocksAndLeavesTheRestToAdamW) {
  for (const bool on_device : {false, true}) {  // rates as numbers, and as tensors
    const auto model = small_model(), other = small_model();
    FlatParameters with(*model), without(*other);
    const OptimizerOptions options{.weight_decay = 0.3};
    auto muon_options = options;
    muon_options.method = "muon";
    AdamW muon(with, muon_options), adamw(without, options);
    constexpr double kRate = 0.01;
    const auto before = with.values().clone();
    set_gradients(with);
    set_gradients(without);
    const auto gradients = with.gradients().clone();
    const auto number = [&](double x) { return torch::full({1}, x, before.options()); };
    const auto step = [&](AdamW& optimizer) {
      if (!on_device) return optimizer.step(kRate);
      return optimizer.step(AdamW::Rates{number(kRate), number(1 - 0.9), number(1 - 0.95)});
    };
    EXPECT_NEAR(step(muon).item<double>(), step(adamw).item<double>(), 1e-15);
    int64_t moved = 0;
    for (const auto& [name, parameter] : with.trained()) {
      const auto begin = parameter.storage_offset(), end = begin + parameter.numel();
      const auto part = [&](const Tensor& flat) {
        return flat.slice(0, begin, end).view(parameter.sizes());
      };
      const bool matrix = parameter.dim() == 2 && name.find("blocks.") == 0;
      const auto wanted =
          matrix ? part(before) * (1 - kRate * 0.3) -
                       kRate * 0.2 *
                           std::sqrt(double(std::max(parameter.size(0), parameter.size(1)))) *
                           orthogonalised(0.1 * part(gradients))
                 : part(without.values());
      EXPECT_LT((parameter - wanted).abs().max().item<double>(), 1e-12) << name;
      moved += matrix ? 1 : 0;
    }
    EXPECT_GT(moved, 8);
  }
}

TEST(Muon, NeedsBlocks) {
  torch::nn::Linear alone(3, 2);
  FlatParameters parameters(*alone);
  EXPECT_EQ(refusal([&] { AdamW(parameters, {.method = "muon"}); }),
            "[muon] the model has no blocks with matrices; use adamw");
}

}  // namespace
}  // namespace geores
