#include "geores/model/transformer/past.h"

namespace geores {

const std::vector<std::string>& past_names() {
  static const std::vector<std::string> names = {"none", "mean", "previous", "both"};
  return names;
}

Past::Past(const PastOptions& options, int64_t width) : gain_(options.gain) {
  if (options.what != "previous") mean_ = register_parameter("mean", torch::zeros({width}));
  if (options.what != "mean") previous_ = register_parameter("previous", torch::zeros({width}));
}

Tensor Past::forward(const Tensor& e, PastMemory* memory) const {
  auto x = e;
  if (mean_.defined()) {
    if (memory != nullptr) memory->means.start_pass();
    const auto mean = pooled(e, Pool::causal, memory != nullptr ? &memory->means : nullptr);
    x = x + gain_ * mean_ * (mean - e);
  }
  if (previous_.defined()) {
    const bool goes_on = memory != nullptr && memory->last.defined();
    const auto before = goes_on ? memory->last : e.slice(1, 0, 1);
    const auto previous = torch::cat({before, e.slice(1, 0, e.size(1) - 1)}, 1);
    x = x + gain_ * previous_ * (previous - e);
  }
  if (memory != nullptr) memory->last = e.slice(1, e.size(1) - 1);
  return x;
}

}  // namespace geores
