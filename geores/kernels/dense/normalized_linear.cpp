#include "geores/kernels/dense/normalized_linear.h"

#include <algorithm>
#include <type_traits>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/simd.h"

namespace geores::kernels {
namespace {

struct WeightSpace;

// Memory for the packed weights of (depth, columns).
template <class T, class P>
auto* weight_buffer(int64_t depth, int64_t columns) {
  return scratch<WeightSpace, typename RightHandSide<T, P>::Packed>(
      RightHandSide<T, P>::packed_size(depth, columns));
}

}  // namespace

template <class T, class P>
NormalizedProduct<T, P>::NormalizedProduct(const Norm<T>& norm, const T* w, const T* bias,
                                           const LinearShape& s)
    : norm_(norm),
      bias_(bias),
      shape_(s),
      weights_(Transposed::yes, w, s.in, s.in, s.out, s.rows, weight_buffer<T, P>(s.in, s.out)) {}

template <class T, class P>
void NormalizedProduct<T, P>::multiply(const T* x, T* y, RowStatistics<T>* statistics,
                                       int64_t rows) const {
  const auto in = shape_.in, out = shape_.out;
  T* z = scratch<LinearShape, T>(kNormalizedRows * in);
  for (int64_t i = 0; i < rows; ++i) {
    statistics[i] = row_statistics(x + i * in, in, norm_);
    normalize_row(x + i * in, statistics[i], norm_, z + i * in, in);
    if (bias_) std::copy_n(bias_, out, y + i * out);
  }
  weights_.multiply(z, in, bias_ != nullptr, y, out, rows);
}

template <class T, class P>
NormalizedProductGradient<T, P>::NormalizedProductGradient(const Norm<T>& norm, const T* w, T* dw,
                                                           T* dbias, const LinearShape& s)
    : norm_(norm),
      dw_(dw),
      dbias_(dbias),
      shape_(s),
      weights_(Transposed::no, w, s.in, s.out, s.in, s.rows, weight_buffer<T, P>(s.out, s.in)),
      z_(scratch<LinearShape, T>(2 * kNormalizedRows * s.in + s.out)),
      g_(z_ + kNormalizedRows * s.in),
      mean_w_(g_ + kNormalizedRows * s.in) {
  for (int64_t o = 0; o < s.out; ++o)
    mean_w_[o] = norm.kind == NormKind::layer ? sum_of(w + o * s.in, s.in) / T(s.in) : T(0);
}

template <class T, class P>
void NormalizedProductGradient<T, P>::start(const T* dy, int64_t rows) {
  dy_ = dy;
  rows_ = rows;
  weights_.multiply(dy, shape_.out, false, g_, shape_.in, rows);
}

// dx += inverse · (g − mean(g) − z · mean(g z)), without the middle term for rms. The mean of g is
// dy times the means of w's rows.
template <class T, class P>
void NormalizedProductGradient<T, P>::add_row(int64_t i, const T* x,
                                              const RowStatistics<T>& statistics, T* dx) {
  const auto in = shape_.in;
  const T* g = g_ + i * in;
  T* z = z_ + i * in;
  const T mean = statistics.mean, inverse = statistics.inverse;
  const T mean_gz = sum_over_vectors<T>(in,
                                        [&](int64_t at, int64_t count) {
                                          const Vec<T> normalized =
                                              (load_up_to(x + at, count) - mean) * inverse;
                                          store_up_to(z + at, normalized, count);
                                          return normalized * load_up_to(g + at, count);
                                        }) /
                    T(in);
  T mean_g = 0;
  if (norm_.kind == NormKind::layer)  // rounded factors give another mean: take it from g itself
    mean_g = std::is_same_v<P, T> ? inner_product(dy_ + i * shape_.out, mean_w_, shape_.out)
                                  : sum_of(g, in) / T(in);
  for_each_vector<T>(in, [&](int64_t at, int64_t count) {
    const Vec<T> gradient =
        load_up_to(g + at, count) - mean_g - load_up_to(z + at, count) * mean_gz;
    store_up_to(dx + at, load_up_to(dx + at, count) + gradient * inverse, count);
  });
}

template <class T, class P>
void NormalizedProductGradient<T, P>::finish() {
  const auto out = shape_.out;
  for (int64_t i = 0; i < rows_; ++i)
    for (int64_t j = 0; j < out; ++j) dbias_[j] += dy_[i * out + j];
  add_transposed_product<T, P>(dy_, out, z_, shape_.in, dw_, shape_.in, out, shape_.in, rows_);
}

template <class T, class P>
void normalized_linear_forward(const T* x, const Norm<T>& norm, const T* w, const T* bias, T* y,
                               RowStatistics<T>* statistics, const LinearShape& s) {
  const SerialBlas serial;
  parallel_ranges(s.rows, threads_for(s.rows, 16), [&](int64_t begin, int64_t end, int) {
    const NormalizedProduct<T, P> product(norm, w, bias, {end - begin, s.in, s.out});
    for (auto row = begin; row < end; row += kNormalizedRows)
      product.multiply(x + row * s.in, y + row * s.out, statistics + row,
                       std::min(kNormalizedRows, end - row));
  });
}

template <class T, class P>
void normalized_linear_backward(const T* x, const Norm<T>& norm, const RowStatistics<T>* statistics,
                                const T* w, const T* dy, const T* skip,
                                const NormalizedLinearGradients<T>& gradients,
                                const LinearShape& s) {
  const SerialBlas serial;
  const int threads = threads_for(s.rows, 16);
  const auto size = s.out * s.in;
  PartialSums<T> partial(threads, size + s.out);
  parallel_ranges(s.rows, threads, [&](int64_t begin, int64_t end, int thread) {
    T* dw = partial.of(thread);
    NormalizedProductGradient<T, P> gradient(norm, w, dw, dw + size, {end - begin, s.in, s.out});
    for (auto first = begin; first < end; first += kNormalizedRows) {
      const auto rows = std::min(kNormalizedRows, end - first);
      gradient.start(dy + first * s.out, rows);
      for (int64_t i = 0; i < rows; ++i) {
        const auto at = (first + i) * s.in;
        if (skip)
          std::copy_n(skip + at, s.in, gradients.x + at);
        else
          std::fill_n(gradients.x + at, s.in, T(0));
        gradient.add_row(i, x + at, statistics[first + i], gradients.x + at);
      }
      gradient.finish();
    }
  });
  partial.add_to(gradients.w, 0, size);
  if (gradients.bias) partial.add_to(gradients.bias, size, s.out);
}

#define GEORES_INSTANTIATE(T, P)                                                                  \
  template class NormalizedProduct<T, P>;                                                         \
  template class NormalizedProductGradient<T, P>;                                                 \
  template void normalized_linear_forward<T, P>(const T*, const Norm<T>&, const T*, const T*, T*, \
                                                RowStatistics<T>*, const LinearShape&);           \
  template void normalized_linear_backward<T, P>(                                                 \
      const T*, const Norm<T>&, const RowStatistics<T>*, const T*, const T*, const T*,            \
      const NormalizedLinearGradients<T>&, const LinearShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
