#include "geores/kernels/pooled/isometries.h"

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/sizes.h"

namespace geores::kernels {

template <class T>
void isometries_forward(const IsometryShape& shape, const T* raw, T* g, int64_t operators) {
  with_size(shape.n, [&](auto n) {
    const auto numbers = shape.count * manifold::generators_of(shape.factor, n);
    parallel_ranges(operators, threads_for(operators, 64), [&](int64_t begin, int64_t end, int) {
      for (auto o = begin; o < end; ++o)
        isometry_at<n.value>(shape, raw + o * numbers, g + o * n * n);
    });
  });
}

template <class T>
void isometries_backward(const IsometryShape& shape, const T* raw, const T* dg, T* draw,
                         int64_t operators) {
  with_size(shape.n, [&](auto n) {
    const auto numbers = shape.count * manifold::generators_of(shape.factor, n);
    parallel_ranges(operators, threads_for(operators, 64), [&](int64_t begin, int64_t end, int) {
      for (auto o = begin; o < end; ++o)
        isometry_backward_at<n.value>(shape, raw + o * numbers, dg + o * n * n, draw + o * numbers);
    });
  });
}

#define GEORES_INSTANTIATE(T)                                                    \
  template void isometries_forward(const IsometryShape&, const T*, T*, int64_t); \
  template void isometries_backward(const IsometryShape&, const T*, const T*, T*, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
