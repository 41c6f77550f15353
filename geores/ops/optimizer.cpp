#include "geores/ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include "geores/kernels/optimizer.h"
#include "geores/ops/fused.h"

namespace geores {

Tensor fused_adamw(const FlatAdamW& step) {
  using fused::values;
  Tensor norm;
  fused::for_type_of(step.values, [&]<class T>(T) {
    const auto size = step.values.numel();
    const auto length = std::sqrt(kernels::sum_of_squares(values<T>(step.gradients), size));
    norm = torch::full({}, length, step.values.options());
    const auto scale = step.clip > 0 ? std::min(1.0, step.clip / (length + 1e-6)) : 1.0;
    kernels::adamw_update(values<T>(step.values), values<T>(step.gradients),
                          values<T>(step.first_moment), values<T>(step.second_moment), size,
                          {.gradient_scale = std::isnan(length) ? length : scale,
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

}  // namespace geores
