#include "geores/train/optimizer/muon.h"

#include <cmath>
#include <map>

#include "geores/base/error.h"

namespace geores {
namespace {

constexpr int kIterations = 5;
// Coefficients of the odd polynomial ax + bx³ + cx⁵ that maps (0, 1] to about 1 within five
// iterations (Jordan).
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kLengthOfAdamW = 0.2;

}  // namespace

Tensor orthogonalised(const Tensor& matrices) {
  const bool tall = matrices.size(-2) > matrices.size(-1);
  auto x = tall ? matrices.transpose(-2, -1) : matrices;  // the smaller side squared
  x = x / (x.norm(2, {-2, -1}, /*keepdim=*/true) + 1e-30);
  for (int i = 0; i < kIterations; ++i) {
    const auto squared = x.matmul(x.transpose(-2, -1));
    x = kA * x + (kB * squared + kC * squared.matmul(squared)).matmul(x);
  }
  return tall ? x.transpose(-2, -1) : x;
}

Muon::Muon(FlatParameters& parameters, const Tensor& first_moment, double weight_decay)
    : parameters_(parameters), weight_decay_(weight_decay) {
  std::map<std::vector<int64_t>, Group> by_shape;
  for (const auto& [name, parameter] : parameters.trained()) {
    const auto begin = parameter.storage_offset(), end = begin + parameter.numel();
    if (parameter.dim() != 2 || begin >= parameters.decayed() ||
        name.find("blocks.") == std::string::npos)
      continue;
    auto& group = by_shape[parameter.sizes().vec()];
    group.values.push_back(parameter.detach());
    group.moments.push_back(first_moment.slice(0, begin, end).view(parameter.sizes()));
    group.scale = kLengthOfAdamW *
                  std::sqrt(static_cast<double>(std::max(parameter.size(0), parameter.size(1))));
  }
  require(!by_shape.empty(), "muon", "the model has no blocks with matrices; use adamw");
  for (auto& [shape, group] : by_shape) groups_.push_back(std::move(group));
}

void Muon::before_adamw() {
  for (auto& group : groups_) group.kept = torch::stack(group.values);
}

template <class Number>
void Muon::after_adamw(const Number& learning_rate) {
  const auto& products = parameters_.product_values();
  for (auto& group : groups_) {
    const auto step = orthogonalised(torch::stack(group.moments));
    const auto next =
        group.kept * (1 - learning_rate * weight_decay_) - step * (learning_rate * group.scale);
    const auto parts = next.unbind(0);
    for (size_t i = 0; i < parts.size(); ++i) {
      auto& value = group.values[i];
      value.copy_(parts[i]);
      if (!products.defined()) continue;
      const auto begin = value.storage_offset();
      products.slice(0, begin, begin + value.numel()).view(value.sizes()).copy_(parts[i]);
    }
    group.kept = Tensor();
  }
}

template void Muon::after_adamw(const double&);
template void Muon::after_adamw(const Tensor&);

}  // namespace geores
