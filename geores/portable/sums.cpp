#include "geores/portable/layers.h"

namespace geores::portable {

// Four sums side by side: they do not wait for each other, and vectorise.
double dot(const double* a, const double* b, int count) {
  double sums[4] = {};
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  double sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double factor, const double* x, int count, double* y) {
  for (int i = 0; i < count; ++i) y[i] += factor * x[i];
}

}  // namespace geores::portable
