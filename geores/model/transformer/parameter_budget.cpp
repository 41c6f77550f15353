#include "geores/model/transformer/parameter_budget.h"

#include <algorithm>
#include <cmath>

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

}  // namespace geores
