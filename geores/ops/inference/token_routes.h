// The routes of one token of each of B sequences (ops/routed/routes.h), made from what its projections
// give in tensors that stay: float32 or float64 on a CPU, without gradients.
#pragma once

#include <functional>
#include <optional>

#include "geores/ops/routed/routed.h"

namespace geores {

class TokenRoutes {
 public:
  // Nothing where n streams have no kernel. `like` has the type of values.
  static std::optional<TokenRoutes> make(const Routing& routing, int64_t n, int64_t batch,
                                         const Tensor& like);
  static TokenRoutes of_tanh(const TanhRoutes& routes, int64_t batch);  // raw (B, n, n + 2)
  static TokenRoutes fixed(const Tensor& res, const Tensor& read, const Tensor& write,
                           int64_t batch);  // (n, n), (n), (n): the same for all tokens

  void update(const Tensor& raw) {
    if (from_) from_(raw, *this);
  }

  Tensor res, read, write;  // (B, n, n), (B, n), (B, n)

 private:
  using From = std::function<void(const Tensor& raw, TokenRoutes& to)>;
  TokenRoutes(int64_t n, int64_t batch, const Tensor& like);

  From from_;  // null: fixed
};

}  // namespace geores
