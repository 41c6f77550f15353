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

Tensor pooled(const Tensor& x, Pool pool) {
  switch (pool) {
    case Pool::sequence:
      return x.mean(1, /*keepdim=*/true);
    case Pool::causal:
      return x.cumsum(1) / torch::arange(1, x.size(1) + 1, x.options()).view({-1, 1});
    case Pool::token:
      return x;
  }
  fail("pool", "unknown pool {}", static_cast<int>(pool));
}

}  // namespace geores
