#include "geores/data/baselines.h"

#include <algorithm>
#include <functional>

#include "geores/base/error.h"

namespace geores {
namespace {

constexpr int64_t most_fitted_states = 200'000;

// Calls `each` with blocks of x and y in float64, so that a large set is never held twice.
void for_blocks(const Tensor& x, const Tensor& y, int64_t block,
                const std::function<void(const Tensor&, const Tensor&)>& each) {
  for (int64_t from = 0; from < x.size(0); from += block) {
    const auto count = std::min(block, x.size(0) - from);
    each(x.narrow(0, from, count).to(torch::kFloat64),
         y.narrow(0, from, count).to(torch::kFloat64));
  }
}

// (N, T, d) -> (at most 200,000, d)
Tensor first_states(const Tensor& x) {
  return x.flatten(0, 1).narrow(0, 0, std::min(most_fitted_states, x.size(0) * x.size(1)));
}

Tensor running_mean(const Tensor& x) {
  const auto counts = torch::arange(1, x.size(1) + 1, x.options()).unsqueeze(1);
  return x.cumsum(1) / counts;
}

Tensor fit_linear(const Tensor& x, const Tensor& y) {
  const auto options = x.options().dtype(torch::kFloat64);
  auto gram = torch::zeros({x.size(2), x.size(2)}, options);
  auto moment = torch::zeros({x.size(2), y.size(2)}, options);
  for_blocks(first_states(x), first_states(y), 8192,
             [&](const Tensor& some_x, const Tensor& some_y) {
               gram += some_x.t().mm(some_x);
               moment += some_x.t().mm(some_y);
             });
  const auto [values, vectors] = torch::linalg_eigh(gram, "L");
  const auto present = values > 1e-14 * values.max().clamp_min(0);
  const auto inverse = torch::where(present, 1 / values, torch::zeros_like(values));
  return (vectors * inverse).mm(vectors.t().mm(moment));
}

}  // namespace

std::vector<Baseline> trivial_baselines(const Dataset& data) {
  if (data.tokens()) return {};
  torch::NoGradGuard no_grad;
  const auto map = fit_linear(data.train_x, data.train_y);
  std::vector<Baseline> all{
      {"zero", 0}, {"copy", 0}, {"running_mean", 0}, {"negate", 0}, {"linear", 0}};
  for_blocks(data.validation_x, data.validation_y, 256, [&](const Tensor& x, const Tensor& y) {
    const Tensor errors[] = {y, y - x, y - running_mean(x), y + x, y - x.matmul(map)};
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i].mse += errors[i].square().sum().item<double>();
  });
  for (auto& baseline : all) baseline.mse /= static_cast<double>(data.validation_y.numel());
  return all;
}

const Baseline& best_baseline(const std::vector<Baseline>& baselines) {
  require(!baselines.empty(), "baselines", "there are none to choose from");
  return *std::min_element(baselines.begin(), baselines.end(),
                           [](const auto& a, const auto& b) { return a.mse < b.mse; });
}

}  // namespace geores
