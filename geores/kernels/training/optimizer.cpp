#include "geores/kernels/training/optimizer.h"

#include <cmath>
#include <vector>

#include "geores/kernels/cpu/parallel.h"

namespace geores::kernels {
namespace {

constexpr int64_t kPiece = 4096;

// Not inlined: one copy of the code gives one order of additions to all callers.
template <class T>
__attribute__((noinline)) double squares_of_piece(const T* x, int64_t size) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

template <class T>
double sum_of_squares(const T* x, int64_t size) {
  const auto pieces = (size + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<size_t>(pieces));
  parallel_ranges(pieces, threads_for(pieces, 8), [&](int64_t begin, int64_t end, int) {
    for (auto piece = begin; piece < end; ++piece) {
      const auto first = piece * kPiece;
      sums[static_cast<size_t>(piece)] =
          squares_of_piece(x + first, std::min(kPiece, size - first));
    }
  });
  double total = 0;
  for (const auto sum : sums) total += sum;
  return total;
}

template <class T>
void adamw_update(T* values, T* gradients, T* first_moment, T* second_moment, int64_t size,
                  const AdamWStep& step) {
  const T gradient_scale = T(step.gradient_scale), beta1 = T(step.beta1), beta2 = T(step.beta2);
  const T fresh1 = T(1 - step.beta1), fresh2 = T(1 - step.beta2);
  const T step_size = T(step.step_size), second_scale = T(step.second_scale);
  const T epsilon = T(step.epsilon);
  const auto update = [&](int64_t begin, int64_t end, T decay) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T g = gradients[i] * gradient_scale;
      const T m = beta1 * first_moment[i] + fresh1 * g;
      const T v = beta2 * second_moment[i] + fresh2 * g * g;
      gradients[i] = g;
      first_moment[i] = m;
      second_moment[i] = v;
      values[i] = values[i] * decay - step_size * m / (std::sqrt(v) * second_scale + epsilon);
    }
  };
  parallel_ranges(size, threads_for(size, 16384), [&](int64_t begin, int64_t end, int) {
    const auto middle = std::clamp(step.decayed, begin, end);
    update(begin, middle, T(step.decay));
    update(middle, end, T(1));
  });
}

#define GEORES_INSTANTIATE(T)                        \
  template double sum_of_squares(const T*, int64_t); \
  template void adamw_update(T*, T*, T*, T*, int64_t, const AdamWStep&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
