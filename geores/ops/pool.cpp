#include "geores/ops/pool.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {

const std::vector<std::string>& pool_names() {
  static const std::vector<std::string> names = {"sequence", "causal", "token"};
  return names;
}

Pool pool_from(const std::string& name) {
  const auto& names = pool_names();
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), "pool", "must be sequence, causal or token, got '{}'", name);
  return static_cast<Pool>(found - names.begin());
}

Tensor StreamMemory::running_mean(const Tensor& x) {
  if (next_ == places_.size()) places_.push_back({torch::zeros_like(x.slice(1, 0, 1)), 0});
  auto& place = places_[next_++];
  const auto sums = place.sum + x.cumsum(1);
  const auto counts = torch::arange(place.count + 1, place.count + x.size(1) + 1, x.options());
  place.sum = sums.slice(1, x.size(1) - 1);
  place.count += x.size(1);
  return sums / counts.view({-1, 1});
}

Tensor pooled(const Tensor& x, Pool pool, StreamMemory* memory) {
  switch (pool) {
    case Pool::sequence:
      require(memory == nullptr, "pool",
              "sequence needs the whole sequence: it cannot be streamed");
      return x.mean(1, /*keepdim=*/true);
    case Pool::causal:
      if (memory != nullptr) return memory->running_mean(x);
      return x.cumsum(1) / torch::arange(1, x.size(1) + 1, x.options()).view({-1, 1});
    case Pool::token:
      return x;
  }
  fail("pool", "unknown pool {}", static_cast<int>(pool));
}

}  // namespace geores
