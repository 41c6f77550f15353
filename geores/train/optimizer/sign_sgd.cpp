#include "geores/train/optimizer/sign_sgd.h"

namespace geores {

void sign_sgd_step(Tensor& table, const Tensor& identifiers, const Tensor& gradients,
                   const Tensor& learning_rate, double weight_decay) {
  const torch::NoGradGuard no_grad;
  const auto same = identifiers.unsqueeze(1) == identifiers.unsqueeze(0);  // (B, B)
  // Every row takes the sum from the first row with its identifier, so rows of one identifier write
  // the same bits in any order. Sums are in float64, because only their sign counts.
  const auto sums = same.to(torch::kFloat64).mm(gradients.to(torch::kFloat64));
  const auto first = same.to(torch::kInt32).argmax(1);
  const auto direction = sums.index_select(0, first).sign().to(table.scalar_type());
  const auto before = table.index_select(0, identifiers);
  table.index_copy_(0, identifiers,
                    before * (1 - learning_rate * weight_decay) - learning_rate * direction);
}

}  // namespace geores
