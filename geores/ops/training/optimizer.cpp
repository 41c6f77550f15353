#include "geores/ops/training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "geores/kernels/training/optimizer.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/training/scalar.h"

namespace geores {

Tensor fused_adamw(const FlatAdamW& step) {
  using fused::values;
  Tensor norm;
  fused::for_type_of(step.values, [&]<class T>(T) {
    const auto size = step.values.numel();
    const auto length = std::sqrt(kernels::sum_of_squares(values<T>(step.gradients), size));
    norm = scalar_of<T>(length, step.values.options());
    if (!std::isfinite(norm.item<double>())) return;
    const auto scale = step.clip > 0 ? std::min(1.0, step.clip / (length + 1e-6)) : 1.0;
    kernels::adamw_update(values<T>(step.values), values<T>(step.gradients),
                          values<T>(step.first_moment), values<T>(step.second_moment), size,
                          {.gradient_scale = scale,
                           .decay = step.decay,
                           .decayed = step.decayed,
                           .beta1 = step.beta1,
                           .beta2 = step.beta2,
                           .step_size = step.step_size,
                           .second_scale = step.second_scale,
                           .epsilon = step.epsilon});
  });
  return norm;
}

Tensor device_adamw(const DeviceAdamW& step) {
  using fused::values;
  auto norm = torch::empty({}, step.values.options());
  const auto partial =
      torch::empty({kernels::kSquareSums}, step.values.options().dtype(torch::kFloat64));
  fused::on_gpu(step.values, [&]<class T>(T, kernels::CudaStream stream) {
    kernels::adamw_update<T>(stream, values<T>(step.values), values<T>(step.gradients),
                             values<T>(step.first_moment), values<T>(step.second_moment),
                             step.values.numel(),
                             {.clip = step.clip,
                              .weight_decay = step.weight_decay,
                              .decayed = step.decayed,
                              .beta1 = step.beta1,
                              .beta2 = step.beta2,
                              .epsilon = step.epsilon,
                              .learning_rate = values<T>(step.learning_rate),
                              .bias1 = values<T>(step.bias1),
                              .bias2 = values<T>(step.bias2),
                              .partial_squares = values<double>(partial),
                              .norm = values<T>(norm),
                              .product_values = values<kernels::BFloat16>(step.product_values),
                              .clear_gradients = step.clear_gradients});
  });
  return norm;
}

}  // namespace geores
