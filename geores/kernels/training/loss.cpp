#include "geores/kernels/training/loss.h"

#include <cmath>
#include <vector>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/vector_math.h"

namespace geores::kernels {
namespace {

// The sum of f(begin, end) over fixed pieces, in the order of the pieces.
template <class F>
double sum_of_pieces(int64_t size, int64_t piece, F&& f) {
  const auto pieces = (size + piece - 1) / piece;
  std::vector<double> sums(static_cast<size_t>(pieces));
  parallel_ranges(pieces, threads_for(pieces, 4), [&](int64_t begin, int64_t end, int) {
    for (auto i = begin; i < end; ++i)
      sums[static_cast<size_t>(i)] = f(i * piece, std::min(size, (i + 1) * piece));
  });
  double total = 0;
  for (const auto sum : sums) total += sum;
  return total;
}

template <class T>
T log_sum_of_exponentials(const T* row, int64_t size) {
  T largest = row[0];
  for (int64_t i = 1; i < size; ++i) largest = row[i] > largest ? row[i] : largest;
  Vec<T> sum{};
  for_each_vector<T>(size, [&](int64_t i, int64_t count) {
    auto term = exponential(load_up_to(row + i, count) - largest);
    for (auto lane = count; lane < kLanes<T>; ++lane) term[lane] = 0;
    sum += term;
  });
  return largest + std::log(sum_of_lanes<T>(sum));
}

}  // namespace

template <class T>
double squared_error_forward(const T* x, const T* y, int64_t size) {
  return sum_of_pieces(size, 4096,
                       [&](int64_t begin, int64_t end) {
                         double sum = 0;
#pragma omp simd reduction(+ : sum)
                         for (auto i = begin; i < end; ++i) {
                           const double difference = x[i] - y[i];
                           sum += difference * difference;
                         }
                         return sum;
                       }) /
         static_cast<double>(size);
}

template <class T>
void squared_error_backward(const T* x, const T* y, T scale, T* dx, int64_t size) {
  const T factor = T(2) * scale / T(size);
  parallel_ranges(size, threads_for(size, 16384), [&](int64_t begin, int64_t end, int) {
#pragma omp simd
    for (auto i = begin; i < end; ++i) dx[i] = factor * (x[i] - y[i]);
  });
}

template <class T>
CrossEntropy cross_entropy_forward(const T* logits, const int64_t* targets, T* log_sum,
                                   int64_t rows, int64_t classes) {
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) count += targets[row] >= 0;
  const auto total = sum_of_pieces(rows, 64, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (auto row = begin; row < end; ++row) {
      log_sum[row] = log_sum_of_exponentials(logits + row * classes, classes);
      if (targets[row] >= 0) sum += log_sum[row] - logits[row * classes + targets[row]];
    }
    return sum;
  });
  return {total / static_cast<double>(count), count};
}

template <class T>
void cross_entropy_backward(const T* logits, const int64_t* targets, const T* log_sum, T scale,
                            T* dlogits, int64_t rows, int64_t classes) {
  parallel_ranges(rows, threads_for(rows, 16), [&](int64_t begin, int64_t end, int) {
    for (auto row = begin; row < end; ++row) {
      T* to = dlogits + row * classes;
      if (targets[row] < 0) {
        std::fill_n(to, classes, T(0));
        continue;
      }
      for_each_vector<T>(classes, [&](int64_t i, int64_t lanes) {
        const auto logit = load_up_to(logits + row * classes + i, lanes);
        store_up_to(to + i, exponential(logit - log_sum[row]) * scale, lanes);
      });
      to[targets[row]] -= scale;
    }
  });
}

#define GEORES_INSTANTIATE(T)                                                                  \
  template double squared_error_forward(const T*, const T*, int64_t);                          \
  template void squared_error_backward(const T*, const T*, T, T*, int64_t);                    \
  template CrossEntropy cross_entropy_forward(const T*, const int64_t*, T*, int64_t, int64_t); \
  template void cross_entropy_backward(const T*, const int64_t*, const T*, T, T*, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
