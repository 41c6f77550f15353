// The routes of one token of each of B sequences (ops/routed/routes.h), computed from its
// projections into persistent tensors: float32 or float64 on a CPU, without gradients.
#pragma once

#include <functional>
#include <optional>

#include "geores/ops/routed/routed.h"

namespace geores {

class StepRoutes {
 public:
  // nullopt if no kernel supports n streams or routes of this kind. `like` has the type of values.
  static std::optional<StepRoutes> make(const Routing& routing, int64_t n, int64_t batch,
                                        const Tensor& like);
  // raw (B, n, n + 2)
  static std::optional<StepRoutes> of_tanh(const TanhRoutes& routes, int64_t batch);
  // The same routes for all tokens.
  static std::optional<StepRoutes> fixed(const Routes& routes, int64_t batch);

  StepRoutes(StepRoutes&&) = default;  // copies would share their tensors

  void update(const Tensor& raw) { make_(raw, *this); }

  Tensor res, read, write;  // (B, n, n), (B, n), (B, n)

 private:
  using Make = std::function<void(const Tensor& raw, StepRoutes& to)>;
  StepRoutes(int64_t n, int64_t batch, const Tensor& like);

  Make make_;
};

}  // namespace geores
