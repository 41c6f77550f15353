// For tests of emulated kernels (cuda/emulated/cuda_runtime.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "geores/kernels/device.h"

namespace geores::kernels {

inline constexpr CudaStream kStream = nullptr;

template <class T>
using Values = std::vector<T>;

// The same numbers in every run of a test, whatever other tests have drawn before it.
template <class T>
Values<T> drawn(int64_t size) {
  static std::mt19937 generator;
  static const testing::TestInfo* test = nullptr;
  if (const auto* now = testing::UnitTest::GetInstance()->current_test_info(); now != test) {
    test = now;
    generator.seed(3);
  }
  std::normal_distribution<double> normal;
  Values<T> values(static_cast<size_t>(size));
  for (auto& value : values) value = static_cast<T>(normal(generator));
  return values;
}

template <class T>
Values<T> zeros(int64_t size) {
  return Values<T>(static_cast<size_t>(size), T(0));
}

template <class T>
void expect_close(const Values<T>& a, const Values<T>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  double largest = 1, error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    // A NaN stays: no number is larger.
    if (std::isnan(difference) || difference > error) error = difference;
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  EXPECT_LT(error, (sizeof(T) == 8 ? 1e-12 : 5e-5) * largest) << what;
}

// ⟨gradients, direction⟩ against the difference of the loss along that direction.
inline void expect_slope(const std::vector<Values<double>>& inputs,
                         const std::vector<Values<double>>& gradients,
                         const std::function<double(const std::vector<Values<double>>&)>& loss,
                         const std::string& what) {
  constexpr double kStep = 1e-5;
  auto ahead = inputs, behind = inputs;
  double slope = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto direction = drawn<double>(static_cast<int64_t>(inputs[i].size()));
    for (size_t k = 0; k < direction.size(); ++k) {
      ahead[i][k] += kStep * direction[k];
      behind[i][k] -= kStep * direction[k];
      slope += gradients[i][k] * direction[k];
    }
  }
  const auto difference = (loss(ahead) - loss(behind)) / (2 * kStep);
  EXPECT_NEAR(slope, difference, 1e-6 * (1 + std::abs(difference))) << what;
}

inline double inner(const Values<double>& a, const Values<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace geores::kernels
