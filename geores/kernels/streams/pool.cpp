#include "geores/kernels/streams/pool.h"

#include "geores/kernels/cpu/parallel.h"

namespace geores::kernels {
namespace {

// f(first value of a sequence, `width` zeros for a running sum) for every sequence.
template <class T, class F>
void for_each_sequence(const PoolShape& s, F&& f) {
  parallel_ranges(s.batch, threads_for(s.batch, 1), [&](int64_t begin, int64_t end, int) {
    T* sum = scratch<PoolShape, T>(s.width);
    for (auto b = begin; b < end; ++b) {
      std::fill_n(sum, s.width, T(0));
      f(b, sum);
    }
  });
}

}  // namespace

template <class T>
void running_mean_forward(const T* x, T* y, const PoolShape& s) {
  for_each_sequence<T>(s, [&](int64_t b, T* sum) {
    for (int64_t t = 0; t < s.length; ++t) {
      const auto at = (b * s.length + t) * s.width;
      const T share = T(1) / T(t + 1);
#pragma omp simd
      for (int64_t i = 0; i < s.width; ++i) {
        sum[i] += x[at + i];
        y[at + i] = sum[i] * share;
      }
    }
  });
}

template <class T>
void running_mean_backward(const T* dy, T* dx, const PoolShape& s) {
  for_each_sequence<T>(s, [&](int64_t b, T* sum) {
    for (auto t = s.length - 1; t >= 0; --t) {
      const auto at = (b * s.length + t) * s.width;
      const T share = T(1) / T(t + 1);
#pragma omp simd
      for (int64_t i = 0; i < s.width; ++i) {
        sum[i] += dy[at + i] * share;
        dx[at + i] = sum[i];
      }
    }
  });
}

template <class T>
void mean_forward(const T* x, T* y, const PoolShape& s) {
  for_each_sequence<T>(s, [&](int64_t b, T* sum) {
    for (int64_t t = 0; t < s.length; ++t) {
      const T* row = x + (b * s.length + t) * s.width;
#pragma omp simd
      for (int64_t i = 0; i < s.width; ++i) sum[i] += row[i];
    }
    for (int64_t i = 0; i < s.width; ++i) y[b * s.width + i] = sum[i] / T(s.length);
  });
}

#define GEORES_INSTANTIATE(T)                                          \
  template void running_mean_forward(const T*, T*, const PoolShape&);  \
  template void running_mean_backward(const T*, T*, const PoolShape&); \
  template void mean_forward(const T*, T*, const PoolShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
