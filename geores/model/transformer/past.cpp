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

Tensor Past::with_previous(const Tensor& e, PastMemory* memory) const {
  if (!previous_.defined()) return e;
  const bool goes_on = memory != nullptr && memory->last.defined();
  const auto before = goes_on ? memory->last : e.slice(1, 0, 1);
  const auto previous = torch::cat({before, e.slice(1, 0, e.size(1) - 1)}, 1);
  if (memory != nullptr) memory->last = e.slice(1, e.size(1) - 1);
  return e + gain_ * previous_ * (previous - e);
}

Tensor Past::with_mean(const Tensor& y, PastMemory* memory) const {
  if (!mean_.defined()) return y;
  if (memory != nullptr) memory->means.start_pass();
  const auto mean = pooled(y, Pool::causal, memory != nullptr ? &memory->means : nullptr);
  return y + gain_ * mean_ * (mean - y);
}

}  // namespace geores
