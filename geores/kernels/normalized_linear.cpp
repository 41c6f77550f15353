#include "geores/kernels/normalized_linear.h"

#include <algorithm>

#include "geores/kernels/parallel.h"
#include "geores/kernels/product.h"

namespace geores::kernels {
namespace {

constexpr auto kNo = Transposed::no, kYes = Transposed::yes;
constexpr int64_t kBlock = 120;  // rows normalized at a time

struct WeightSpace;

}  // namespace

template <class T>
void normalized_linear_forward(const T* x, const Norm<T>& norm, const T* w, const T* bias, T* y,
                               RowStatistics<T>* statistics, const LinearShape& s) {
  const SerialBlas serial;
  parallel_ranges(s.rows, threads_for(s.rows, 16), [&](int64_t begin, int64_t end, int) {
    T* z = scratch<LinearShape, T>(kBlock * s.in);
    const auto size = RightHandSide<T>::packed_size(s.in, s.out);
    const RightHandSide<T> weights(kYes, w, s.in, s.in, s.out, end - begin,
                                   scratch<WeightSpace, T>(size));
    for (auto row = begin; row < end; row += kBlock) {
      const auto count = std::min(kBlock, end - row);
      for (int64_t i = 0; i < count; ++i) {
        const T* from = x + (row + i) * s.in;
        const auto statistic = row_statistics(from, s.in, norm);
        normalize_row(from, statistic, norm, z + i * s.in, s.in);
        if (statistics) statistics[row + i] = statistic;
        if (bias) std::copy_n(bias, s.out, y + (row + i) * s.out);
      }
      weights.multiply(z, s.in, bias != nullptr, y + row * s.out, s.out, count);
    }
  });
}

template <class T>
void normalized_linear_backward(const T* x, const Norm<T>& norm, const RowStatistics<T>* statistics,
                                const T* w, const T* dy, const T* skip,
                                const NormalizedLinearGradients<T>& gradients,
                                const LinearShape& s) {
  const SerialBlas serial;
  const int threads = threads_for(s.rows, 16);
  const auto size = s.out * s.in;
  PartialSums<T> partial(threads, size + s.out + 2 * s.in);
  parallel_ranges(s.rows, threads, [&](int64_t begin, int64_t end, int thread) {
    T* z = scratch<LinearShape, T>(2 * kBlock * s.in);
    T* dz = z + kBlock * s.in;
    const auto room = RightHandSide<T>::packed_size(s.out, s.in);
    const RightHandSide<T> weights(kNo, w, s.in, s.out, s.in, end - begin,
                                   scratch<WeightSpace, T>(room));
    T* dw = partial.of(thread);
    T* dbias = dw + size;
    T* dnorm_weight = gradients.norm_weight ? dbias + s.out : nullptr;
    T* dnorm_bias = gradients.norm_bias ? dbias + s.out + s.in : nullptr;
    for (auto row = begin; row < end; row += kBlock) {
      const auto count = std::min(kBlock, end - row);
      const T* dy_block = dy + row * s.out;
      weights.multiply(dy_block, s.out, false, dz, s.in, count);
      for (int64_t i = 0; i < count; ++i) {
        const auto at = (row + i) * s.in;
        normalize_row(x + at, statistics[row + i], norm, z + i * s.in, s.in);
        if (skip) std::copy_n(skip + at, s.in, gradients.x + at);
        normalize_row_backward(x + at, statistics[row + i], norm, dz + i * s.in, skip != nullptr,
                               gradients.x + at, dnorm_weight, dnorm_bias, s.in);
        for (int64_t j = 0; j < s.out; ++j) dbias[j] += dy_block[i * s.out + j];
      }
      add_transposed_product(dy_block, s.out, z, s.in, dw, s.in, s.out, s.in, count);
    }
  });
  if (gradients.w) partial.add_to(gradients.w, 0, size);
  if (gradients.bias) partial.add_to(gradients.bias, size, s.out);
  if (gradients.norm_weight) partial.add_to(gradients.norm_weight, size + s.out, s.in);
  if (gradients.norm_bias) partial.add_to(gradients.norm_bias, size + s.out + s.in, s.in);
}

#define GEORES_INSTANTIATE(T)                                                               \
  template void normalized_linear_forward(const T*, const Norm<T>&, const T*, const T*, T*, \
                                          RowStatistics<T>*, const LinearShape&);           \
  template void normalized_linear_backward(                                                 \
      const T*, const Norm<T>&, const RowStatistics<T>*, const T*, const T*, const T*,      \
      const NormalizedLinearGradients<T>&, const LinearShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
