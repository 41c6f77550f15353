#include "geores/model/folding.h"

namespace geores {

FoldedWeights Folding::weights() const { return folded_together({*this}).front(); }

std::vector<FoldedWeights> folded_together(const std::vector<Folding>& foldings) {
  std::vector<WeightFactors> factors;
  for (const auto& [first, last, pre, post] : foldings) {
    if (pre.defined()) factors.emplace_back(first, pre);
    if (post.defined()) factors.emplace_back(post, last);
  }
  const auto products = weight_products(factors);
  auto next = products.begin();
  std::vector<FoldedWeights> all;
  for (const auto& [first, last, pre, post] : foldings) {
    const auto folded_first = pre.defined() ? *next++ : first;
    const auto folded_last = post.defined() ? *next++ : last;
    all.push_back({folded_first, folded_last});
  }
  return all;
}

}  // namespace geores
