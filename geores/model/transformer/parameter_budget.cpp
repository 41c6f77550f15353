#include "geores/model/transformer/parameter_budget.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "geores/base/error.h"

namespace geores {

ParameterBudget parameter_budget(TransformerConfig config) {
  ParameterBudget budget{.layers = config.layers};
  config.layers = 1;
  const Transformer model(config);
  auto& block = *model.blocks().front();
  budget.connections =
      parameter_count(block.attention_residual()) + parameter_count(block.mlp_residual());
  budget.sublayers = parameter_count(block) - budget.connections;
  budget.outside = parameter_count(model) - budget.block();
  return budget;
}

int64_t layers_for(const ParameterBudget& budget, int64_t target) {
  require(target >= 1, "params", "target must be >= 1, got {}", target);
  const auto layers =
      static_cast<double>(target - budget.outside) / static_cast<double>(budget.block());
  return std::max<int64_t>(1, std::llround(layers));
}

int64_t width_for(TransformerConfig config, int64_t target) {
  require(target >= 1, "params", "target must be >= 1, got {}", target);
  const auto step = std::lcm(config.heads, config.streams);
  const auto total = [&](int64_t steps) {
    config.width = steps * step;
    return parameter_budget(config).total();
  };
  // Parameters grow with the width: doubling, then bisection, finds the first width that is too
  // large.
  int64_t below = 0, above = 1;
  while (total(above) < target) {
    below = above;
    above *= 2;
  }
  while (above - below > 1) {
    const auto middle = (below + above) / 2;
    (total(middle) < target ? below : above) = middle;
  }
  if (below == 0 || total(above) - target < target - total(below)) return above * step;
  return below * step;
}

}  // namespace geores
