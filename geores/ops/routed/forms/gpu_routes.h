// Shared by the forms of a routed connection on a GPU.
#pragma once

#include <variant>

#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/tokens/token_routes.h"
#include "geores/ops/dense/kernel_norm.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/forms/forms.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"

namespace geores::fused {

// Routes that the kernels with passes over the state also support.
inline bool has_passes(const Routing& routing) {
  return std::holds_alternative<CayleyRouting>(routing) ||
         std::holds_alternative<GuardedRouting>(routing);
}

// Calls f(routes for the kernels). A Cayley map is the iterated one.
template <class T, class F>
void with_routes(const Routing& routing, F&& f) {
  if (const auto* cayley = std::get_if<CayleyRouting>(&routing))
    f(kernels::CayleyRoutes<T>{T(cayley->temperature), T(cayley->alpha),
                               static_cast<int>(cayley->iterations)});
  else
    f(kernels::GuardedRoutes<T>{static_cast<int>(std::get<GuardedRouting>(routing).iterations),
                                T(kSinkhornGuard)});
}

// The same for kernels that compute all routes of a token; f is not called if none does.
template <class F>
void with_token_routes(const Routing& routing, F&& f) {
  if (has_passes(routing)) return with_routes<float>(routing, f);
  if (const auto* sinkhorn = std::get_if<SinkhornRouting>(&routing))
    f(kernels::SinkhornRoutes{static_cast<int>(sinkhorn->spec.iterations),
                              static_cast<float>(sinkhorn->spec.logit_bound),
                              sinkhorn->spec.gradient == SinkhornGradient::unrolled});
  else if (std::holds_alternative<PermutationRouting>(routing))
    f(kernels::PermutationRoutes());
  else if (std::holds_alternative<SphereRouting>(routing))
    f(kernels::SphereRoutes());
  else if (std::holds_alternative<StreamRouting>(routing))
    f(kernels::SoftmaxRoutes());
}

// Routes that some GPU kernel supports.
inline bool has_kernel(const Routing& routing) {
  bool has = false;
  with_token_routes(routing, [&](const auto&) { has = true; });
  return has;
}

// Routes with a token form of their own.
inline bool has_tanh_routes(const RoutedSpec& spec) {
  return std::holds_alternative<TanhRouting>(spec.routing);
}

// The requirements of all these forms.
KernelChoice& need_routes_on_gpu(KernelChoice& choice, const RoutedInput& in,
                                 const RoutedSpec& spec);

}  // namespace geores::fused
