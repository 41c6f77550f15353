#include "geores/data/trajectories.h"

#include <cmath>
#include <cstddef>
#include <utility>

namespace geores {
namespace {

using Vector = std::vector<double>;

Vector gaussian(NumpyRandom& random, int64_t width) {
  Vector vector(static_cast<std::size_t>(width));
  for (double& value : vector) value = random.randn();
  return vector;
}

Vector unit_vector(NumpyRandom& random, int64_t width) {
  auto vector = gaussian(random, width);
  double square = 0;
  for (const double value : vector) square += value * value;
  for (double& value : vector) value /= std::sqrt(square);
  return vector;
}

Trajectories empty_trajectories(int64_t count, int64_t length, int64_t width) {
  Trajectories result{count, length, width, {}, {}};
  result.values.reserve(static_cast<std::size_t>(count * length * width));
  return result;
}

void append(Trajectories& result, const Vector& state) {
  for (const double value : state) result.values.push_back(static_cast<float>(value));
}

// (a, b) <- (cos θ a - sin θ b, sin θ a + cos θ b)
void rotate(double& a, double& b, double cosine, double sine) {
  const auto turned = cosine * a - sine * b;
  b = sine * a + cosine * b;
  a = turned;
}

}  // namespace

Trajectories gyroscope_trajectories(NumpyRandom& random, int64_t count, int64_t length) {
  constexpr int64_t width = 16;
  auto result = empty_trajectories(count, length, width);
  for (int64_t n = 0; n < count; ++n) {
    auto state = unit_vector(random, width);
    const auto theta = random.uniform(0.1, 2.5);
    const auto i = random.randint(0, width - 1);
    const auto j = random.randint(i + 1, width);
    result.theta.push_back(static_cast<float>(theta));
    const auto cosine = std::cos(theta), sine = std::sin(theta);
    for (int64_t t = 0; t < length; ++t) {
      append(result, state);
      rotate(state[static_cast<std::size_t>(i)], state[static_cast<std::size_t>(j)], cosine, sine);
    }
  }
  return result;
}

Trajectories stability_trajectories(NumpyRandom& random, int64_t count, int64_t length) {
  constexpr int64_t width = 64;
  auto result = empty_trajectories(count, length, width);
  for (int64_t n = 0; n < count; ++n) {
    const auto key = unit_vector(random, width);
    for (int64_t t = 0; t < length; ++t)
      for (const double value : key)
        result.values.push_back(static_cast<float>(value + 1e-3 * random.randn()));
  }
  return result;
}

Trajectories rotation_trajectories(NumpyRandom& random, int64_t count, int64_t length,
                                   int64_t planes, double theta) {
  constexpr int64_t width = 64;
  auto result = empty_trajectories(count, length, width);
  const auto cosine = std::cos(theta), sine = std::sin(theta);
  for (int64_t n = 0; n < count; ++n) {
    auto state = unit_vector(random, width);
    for (int64_t t = 0; t < length; ++t) {
      append(result, state);
      for (std::size_t p = 0; std::cmp_less(p, planes); ++p)
        rotate(state[2 * p], state[2 * p + 1], cosine, sine);
    }
  }
  return result;
}

Trajectories reflection_trajectories(NumpyRandom& random, int64_t count) {
  constexpr int64_t width = 64;
  auto result = empty_trajectories(count, 2, width);
  for (int64_t n = 0; n < count; ++n) {
    auto state = gaussian(random, width);
    append(result, state);
    for (double& value : state) value = -value;
    append(result, state);
  }
  return result;
}

Trajectories copy_trajectories(NumpyRandom& random, int64_t count, int64_t length,
                               int64_t vocabulary) {
  auto result = empty_trajectories(count, length, 1);
  for (int64_t n = 0; n < count; ++n) {
    Vector tokens(static_cast<std::size_t>(length / 2));
    for (double& token : tokens) token = static_cast<double>(random.randint(0, vocabulary));
    append(result, tokens);
    append(result, tokens);
  }
  return result;
}

}  // namespace geores
