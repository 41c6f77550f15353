#include "geores/kernels/norms/post_norm.h"

#include <cmath>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/simd.h"

namespace geores::kernels {
namespace {

constexpr int64_t kRowsOfAThread = 32;

// The value, or 0 for a null pointer.
template <class T>
Vec<T> load_or_zero(const T* from, int64_t at, int64_t count) {
  return from ? load_up_to(from + at, count) : Vec<T>{};
}

template <class T>
void store_if(T* to, int64_t at, const Vec<T>& v, int64_t count) {
  if (to) store_up_to(to + at, v, count);
}

}  // namespace

template <class T, class A>
void post_norm_forward(const PostNormForward<T, A>& p, int64_t rows, int64_t width) {
  parallel_ranges(rows, threads_for(rows, kRowsOfAThread), [&](int64_t begin, int64_t end, int) {
    for (auto row = begin; row < end; ++row) {
      const auto at = row * width;
      const auto v = [&](int64_t i, int64_t count) -> Vec<T> {
        return load_up_to(p.x + at + i, count) + load_or_zero(p.branch, at + i, count);
      };
      const T squares = sum_over_vectors<T>(width, [&](int64_t i, int64_t count) -> Vec<T> {
        const Vec<T> values = v(i, count);
        return values * values;
      });
      const T inverse = T(1) / std::sqrt(squares / T(width) + p.eps);
      for_each_vector<T>(width, [&](int64_t i, int64_t count) {
        const Vec<T> y = v(i, count) * inverse;
        const Vec<T> sum = y + load_or_zero(p.added, at + i, count);
        store_if<T>(p.y, at + i, y, count);
        store_if<T>(p.sum, at + i, sum, count);
        store_if<T>(p.product, at + i, sum, count);
      });
      if (p.inverse) p.inverse[row] = inverse;
    }
  });
}

template <class T, class A>
void post_norm_backward(const PostNormBackward<T, A>& p, int64_t rows, int64_t width) {
  parallel_ranges(rows, threads_for(rows, kRowsOfAThread), [&](int64_t begin, int64_t end, int) {
    for (auto row = begin; row < end; ++row) {
      const auto at = row * width;
      const auto by_sum = [&](int64_t i, int64_t count) -> Vec<T> {
        return load_or_zero(p.dsum, at + i, count) + load_or_zero(p.dproduct, at + i, count);
      };
      const auto whole = [&](int64_t i, int64_t count) -> Vec<T> {
        return by_sum(i, count) + load_or_zero(p.dy, at + i, count);
      };
      const T along =
          sum_over_vectors<T>(width,
                              [&](int64_t i, int64_t count) -> Vec<T> {
                                return whole(i, count) * load_up_to(p.y + at + i, count);
                              }) /
          T(width);
      const T inverse = p.inverse[row];
      for_each_vector<T>(width, [&](int64_t i, int64_t count) {
        const Vec<T> dx = (whole(i, count) - load_up_to(p.y + at + i, count) * along) * inverse;
        store_if<T>(p.dadded, at + i, by_sum(i, count), count);
        store_if<T>(p.dx, at + i, dx, count);
        store_if<T>(p.dbranch, at + i, dx, count);
      });
    }
  });
}

#define GEORES_INSTANTIATE(T)                                                      \
  template void post_norm_forward(const PostNormForward<T, T>&, int64_t, int64_t); \
  template void post_norm_backward(const PostNormBackward<T, T>&, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
