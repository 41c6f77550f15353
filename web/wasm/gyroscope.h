// Sequences of the task gyroscope for the page's models to be judged on: seeded, the same everywhere,
// and not those that the models were trained on.
#pragma once

#include <cmath>
#include <vector>

#include "geores/base/formats/numpy_random.h"
#include "geores/portable/model.h"

namespace geores::web {

// The mean squared error of the model's predictions over 500 sequences of 32 positions.
inline double gyroscope_error(portable::Model& model) {
  constexpr int width = 16, length = 32, sequences = 500;
  NumpyRandom random(20260101);
  std::vector<double> x((length + 1) * width), y(length * width);
  double sum = 0;
  for (int n = 0; n < sequences; ++n) {
    double square = 0;
    for (int c = 0; c < width; ++c) {
      x[c] = random.randn();
      square += x[c] * x[c];
    }
    for (int c = 0; c < width; ++c) x[c] /= std::sqrt(square);
    const double theta = random.uniform(0.1, 2.5);
    const auto i = static_cast<int>(random.randint(0, width - 1));
    const auto j = static_cast<int>(random.randint(i + 1, width));
    for (int t = 0; t < length; ++t) {
      const double* now = x.data() + t * width;
      double* next = x.data() + (t + 1) * width;
      for (int c = 0; c < width; ++c) next[c] = now[c];
      next[i] = std::cos(theta) * now[i] - std::sin(theta) * now[j];
      next[j] = std::sin(theta) * now[i] + std::cos(theta) * now[j];
    }
    model.forward(x.data(), 0, length, y.data());
    for (int k = 0; k < length * width; ++k) sum += (y[k] - x[k + width]) * (y[k] - x[k + width]);
  }
  return sum / (static_cast<double>(sequences) * length * width);
}

}  // namespace geores::web
