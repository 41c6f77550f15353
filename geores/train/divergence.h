// Messages for a run that has diverged.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace geores {

// Which value of a step is not finite: the loss or the gradient.
inline std::string cause_of_divergence(int64_t step, double loss, double gradient_norm) {
  if (std::isfinite(loss))
    return fmt::format("the gradient's norm is {} at step {} (loss {:.4g})", gradient_norm, step,
                       loss);
  return fmt::format("the loss is {} at step {}", loss, step);
}

// saved_step: the step of the checkpoint, 0 if there is none.
inline std::string divergence_notice(const std::string& cause, int64_t saved_step) {
  return cause + ": stopped; " +
         (saved_step > 0 ? fmt::format("the checkpoint of step {} is kept", saved_step)
                         : "there is no checkpoint yet");
}

}  // namespace geores
