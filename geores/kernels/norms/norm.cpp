#include "geores/kernels/norms/norm.h"

#include <cmath>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/simd.h"

namespace geores::kernels {

template <class T>
RowStatistics<T> row_statistics(const T* x, int64_t width, const Norm<T>& norm) {
  const T mean = norm.kind == NormKind::layer ? sum_of(x, width) / T(width) : T(0);
  // Squares of differences from the mean, so that a large offset costs no digits.
  const T squares = sum_over_vectors<T>(width, [&](int64_t i, int64_t count) {
    const Vec<T> difference = load_up_to(x + i, count, mean) - mean;
    return difference * difference;
  });
  return {mean, T(1) / std::sqrt(squares / T(width) + norm.eps)};
}

template <class T>
void normalize_row(const T* x, const RowStatistics<T>& s, const Norm<T>& norm, T* y,
                   int64_t width) {
  for_each_vector<T>(width, [&](int64_t i, int64_t count) {
    Vec<T> v = (load_up_to(x + i, count) - s.mean) * s.inverse;
    if (norm.weight) v *= load_up_to(norm.weight + i, count);
    if (norm.bias) v += load_up_to(norm.bias + i, count);
    store_up_to(y + i, v, count);
  });
}

// With z the normalized row and g = dy · weight: dx = inverse · (g − mean(g) − z · mean(g z)),
// without the middle term for rms.
template <class T>
void normalize_row_backward(const T* x, const RowStatistics<T>& s, const Norm<T>& norm, const T* dy,
                            bool accumulate, T* dx, T* dweight, T* dbias, int64_t width) {
  Vec<T> sum_g{}, sum_gz{};
  for_each_vector<T>(width, [&](int64_t i, int64_t count) {
    const Vec<T> z = (load_up_to(x + i, count) - s.mean) * s.inverse;
    Vec<T> g = load_up_to(dy + i, count);  // 0 beyond the row
    if (dweight) store_up_to(dweight + i, load_up_to(dweight + i, count) + g * z, count);
    if (dbias) store_up_to(dbias + i, load_up_to(dbias + i, count) + g, count);
    if (norm.weight) g *= load_up_to(norm.weight + i, count);
    sum_g += g;
    sum_gz += g * z;
  });
  const T mean_g = norm.kind == NormKind::layer ? sum_of_lanes<T>(sum_g) / T(width) : T(0);
  const T mean_gz = sum_of_lanes<T>(sum_gz) / T(width);
  for_each_vector<T>(width, [&](int64_t i, int64_t count) {
    const Vec<T> z = (load_up_to(x + i, count) - s.mean) * s.inverse;
    Vec<T> g = load_up_to(dy + i, count);
    if (norm.weight) g *= load_up_to(norm.weight + i, count);
    Vec<T> gradient = (g - mean_g - z * mean_gz) * s.inverse;
    if (accumulate) gradient += load_up_to(dx + i, count);
    store_up_to(dx + i, gradient, count);
  });
}

template <class T>
void norm_forward(const T* x, const Norm<T>& norm, T* y, RowStatistics<T>* statistics, int64_t rows,
                  int64_t width, const T* branch, T* sum) {
  parallel_ranges(rows, threads_for(rows, 32), [&](int64_t begin, int64_t end, int) {
    for (auto row = begin; row < end; ++row) {
      const T* in = x + row * width;
      if (branch) {
        for (auto i = row * width; i < (row + 1) * width; ++i) sum[i] = x[i] + branch[i];
        in = sum + row * width;
      }
      const auto s = row_statistics(in, width, norm);
      normalize_row(in, s, norm, y + row * width, width);
      if (statistics) statistics[row] = s;
    }
  });
}

template <class T>
void norm_backward(const T* x, const RowStatistics<T>* statistics, const Norm<T>& norm, const T* dy,
                   const T* skip, T* dx, T* dweight, T* dbias, int64_t rows, int64_t width,
                   T* dbranch) {
  const int threads = threads_for(rows, 32);
  PartialSums<T> partial(threads, 2 * width);
  parallel_ranges(rows, threads, [&](int64_t begin, int64_t end, int thread) {
    T* dweight_here = dweight ? partial.of(thread) : nullptr;
    T* dbias_here = dbias ? partial.of(thread) + width : nullptr;
    for (auto row = begin; row < end; ++row) {
      if (skip) std::copy_n(skip + row * width, width, dx + row * width);
      normalize_row_backward(x + row * width, statistics[row], norm, dy + row * width,
                             skip != nullptr, dx + row * width, dweight_here, dbias_here, width);
      if (dbranch) std::copy_n(dx + row * width, width, dbranch + row * width);
    }
  });
  if (dweight) partial.add_to(dweight, 0, width);
  if (dbias) partial.add_to(dbias, width, width);
}

#define GEORES_INSTANTIATE(T)                                                                   \
  template RowStatistics<T> row_statistics(const T*, int64_t, const Norm<T>&);                  \
  template void normalize_row(const T*, const RowStatistics<T>&, const Norm<T>&, T*, int64_t);  \
  template void normalize_row_backward(const T*, const RowStatistics<T>&, const Norm<T>&,       \
                                       const T*, bool, T*, T*, T*, int64_t);                    \
  template void norm_forward(const T*, const Norm<T>&, T*, RowStatistics<T>*, int64_t, int64_t, \
                             const T*, T*);                                                     \
  template void norm_backward(const T*, const RowStatistics<T>*, const Norm<T>&, const T*,      \
                              const T*, T*, T*, T*, int64_t, int64_t, T*);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
