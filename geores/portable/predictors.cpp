#include "geores/portable/predictors.h"

#include <cmath>
#include <cstddef>

namespace geores::portable {
namespace {

// Indices of the two entries of |a − b| that are largest.
std::array<int, 2> most_changed(const double* a, const double* b, int width) {
  std::array<int, 2> most = {0, width > 1 ? 1 : 0};
  const auto change = [&](int i) { return std::abs(a[i] - b[i]); };
  if (change(most[1]) > change(most[0])) most = {most[1], most[0]};
  for (int i = 2; i < width; ++i) {
    if (change(i) > change(most[0])) {
      most = {i, most[0]};
    } else if (change(i) > change(most[1])) {
      most[1] = i;
    }
  }
  return most;
}

// Turns two coordinates of `now` as they turned from `before` to `now`.
void turn_on(const double* before, const double* now, int width, double* y) {
  const auto [i, j] = most_changed(before, now, width);
  const double size = std::sqrt((before[i] * before[i] + before[j] * before[j]) *
                                (now[i] * now[i] + now[j] * now[j]));
  if (size == 0 || i == j) return;
  const double cosine = (before[i] * now[i] + before[j] * now[j]) / size;
  const double sine = (before[i] * now[j] - before[j] * now[i]) / size;
  y[i] = cosine * now[i] - sine * now[j];
  y[j] = sine * now[i] + cosine * now[j];
}

}  // namespace

void predict_next(Rule rule, const double* x, int position, int width, double* y) {
  const double* now = x + static_cast<std::size_t>(position) * width;
  for (int i = 0; i < width; ++i) y[i] = rule == Rule::zero ? 0 : now[i];
  if (rule == Rule::two_state && position > 0) turn_on(now - width, now, width, y);
  if (rule != Rule::running_mean) return;
  for (int t = 0; t < position; ++t)
    for (int i = 0; i < width; ++i) y[i] += x[static_cast<std::size_t>(t) * width + i];
  for (int i = 0; i < width; ++i) y[i] /= position + 1;
}

}  // namespace geores::portable
