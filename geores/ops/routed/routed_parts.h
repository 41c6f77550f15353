// What the forms of a routed connection on a GPU share.
#pragma once

#include "geores/kernels/mixers/mixers.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/routed.h"
#include "geores/ops/run/dispatch.h"

namespace geores::fused {

// The routes' kind and numbers, as autograd keeps them.
struct RoutingNumbers {
  bool cayley;
  double temperature = 0, alpha = 0;
  int64_t iterations = 0;

  explicit RoutingNumbers(const RoutedSpec& spec)
      : cayley(std::holds_alternative<CayleyRouting>(spec.routing)) {
    if (cayley) {
      const auto& routing = std::get<CayleyRouting>(spec.routing);
      temperature = routing.temperature;
      alpha = routing.alpha;
      iterations = routing.iterations;
    } else {
      iterations = std::get<GuardedRouting>(spec.routing).iterations;
    }
  }

  explicit RoutingNumbers(AutogradContext* context)
      : cayley(context->saved_data["cayley"].toBool()),
        temperature(context->saved_data["temperature"].toDouble()),
        alpha(context->saved_data["alpha"].toDouble()),
        iterations(context->saved_data["iterations"].toInt()) {}

  void keep(AutogradContext* context) const {
    context->saved_data["cayley"] = cayley;
    context->saved_data["temperature"] = temperature;
    context->saved_data["alpha"] = alpha;
    context->saved_data["iterations"] = iterations;
  }

  // f(what kernels take).
  template <class T, class F>
  void with(F&& f) const {
    if (cayley)
      f(kernels::CayleyRoutes<T>{T(temperature), T(alpha), static_cast<int>(iterations)});
    else
      f(kernels::GuardedRoutes<T>{static_cast<int>(iterations), T(kSinkhornGuard)});
  }
};

// Norm of the state.
template <class T>
kernels::Norm<T> state_norm(bool layer, const Tensor& weight, const Tensor& bias = {}) {
  return {.kind = layer ? kernels::NormKind::layer : kernels::NormKind::rms,
          .weight = values<T>(weight),
          .bias = values<T>(bias),
          .eps = T(layer ? 1e-5 : 1e-6)};
}

}  // namespace geores::fused
