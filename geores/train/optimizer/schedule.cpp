#include "geores/train/optimizer/schedule.h"

#include <cmath>
#include <numbers>

namespace geores {

double Schedule::at(int64_t step) const {
  if (step < warmup) {
    const auto later = from_zero ? 0 : 1;
    return peak * static_cast<double>(step + later) / static_cast<double>(warmup + later);
  }
  if (step >= total) return floor;
  const auto progress = static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
  return floor + 0.5 * (peak - floor) * (1 + std::cos(std::numbers::pi * progress));
}

double step_decay(int64_t t, int64_t warmup, int64_t total) {
  if (t < warmup) return static_cast<double>(t) / static_cast<double>(warmup);
  const auto done = static_cast<double>(t) / static_cast<double>(total);
  return done >= 0.9 ? 0.1 : done >= 0.8 ? 0.316 : 1.0;
}

}  // namespace geores
