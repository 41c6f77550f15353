#include "geores/model/carry.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {

void Carry::add(const std::string& name, const Tensor& initial) {
  for (const auto& [other, tensor] : tensors_)
    require(other != name, "carry", "'{}' is there twice", name);
  require(initial.dim() >= 1, "carry", "'{}' has no axis of sequences", name);
  tensors_.emplace_back(name, initial.detach().clone());
}

bool Carry::contains(const std::string& name) const {
  return std::ranges::any_of(tensors_, [&](const auto& each) { return each.first == name; });
}

const Tensor& Carry::at(const std::string& name) const {
  for (const auto& [other, tensor] : tensors_)
    if (other == name) return tensor;
  fail("carry", "there is no '{}'", name);
}

void Carry::set(const std::string& name, const Tensor& value) {
  const torch::NoGradGuard no_grad;
  at(name).copy_(value);
}

Carry Carry::part(int64_t index, int64_t parts) const {
  Carry result;
  for (const auto& [name, tensor] : tensors_) {
    require(parts >= 1 && tensor.size(0) % parts == 0, "carry",
            "the {} rows of '{}' cannot be split into {} equal parts", tensor.size(0), name, parts);
    const auto rows = tensor.size(0) / parts;
    result.tensors_.emplace_back(name, tensor.slice(0, index * rows, (index + 1) * rows));
  }
  return result;
}

}  // namespace geores
