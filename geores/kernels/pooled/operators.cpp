#include "geores/kernels/pooled/operators.h"

#include <cmath>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/sizes.h"
#include "geores/manifold/hybrid.h"

namespace geores::kernels {
namespace {

template <int N, class T>
manifold::Vector<T, N> vector_at(const T* values, int64_t index) {
  manifold::Vector<T, N> v{};
  std::copy_n(values + index * N, N, v.at);
  return v;
}

template <int N, class T>
manifold::HybridGenerators<T, N> generators_at(const HybridArrays<const T>& p, int64_t o) {
  return {vector_at<N>(p.u, o), vector_at<N>(p.v, o), vector_at<N>(p.k, o), p.beta[o], p.gamma[o]};
}

}  // namespace

template <class T>
void hybrid_operators_forward(const HybridArrays<const T>& p, T* g, int64_t operators, int64_t n) {
  with_size(n, [&](auto size) {
    parallel_ranges(operators, threads_for(operators, 64), [&](int64_t begin, int64_t end, int) {
      for (auto o = begin; o < end; ++o) {
        const auto matrix = manifold::hybrid_operator(generators_at<size.value>(p, o));
        std::copy_n(&matrix.at[0][0], size * size, g + o * size * size);
      }
    });
  });
}

template <class T>
void hybrid_operators_backward(const HybridArrays<const T>& p, const T* dg,
                               const HybridArrays<T>& gradients, int64_t operators, int64_t n) {
  with_size(n, [&](auto size) {
    parallel_ranges(operators, threads_for(operators, 64), [&](int64_t begin, int64_t end, int) {
      for (auto o = begin; o < end; ++o) {
        manifold::Matrix<T, size.value> cotangent{};
        std::copy_n(dg + o * size * size, size * size, &cotangent.at[0][0]);
        const auto d =
            manifold::hybrid_operator_backward(generators_at<size.value>(p, o), cotangent);
        std::copy_n(d.u.at, size, gradients.u + o * size);
        std::copy_n(d.v.at, size, gradients.v + o * size);
        std::copy_n(d.k.at, size, gradients.k + o * size);
        gradients.beta[o] = d.beta;
        gradients.gamma[o] = d.gamma;
      }
    });
  });
}

template <class T>
void hybrid_from_raw(const T* raw, const T* logits, T* g, int64_t operators, int64_t n) {
  with_size(n, [&](auto size) {
    for (int64_t o = 0; o < operators; ++o) {
      const T* at = raw + o * (3 * size + 1);
      const T beta = at[2 * size];
      const auto k = vector_at<size.value>(at + 2 * size + 1, 0);
      const auto matrix = manifold::hybrid_operator<T, size.value>(
          {vector_at<size.value>(at, 0), vector_at<size.value>(at + size, 0),
           manifold::normalise(k).direction, beta > T(20) ? beta : std::log1p(std::exp(beta)),
           T(1) / (T(1) + std::exp(-logits[o]))});
      std::copy_n(&matrix.at[0][0], size * size, g + o * size * size);
    }
  });
}

#define GEORES_INSTANTIATE(T)                                                                 \
  template void hybrid_operators_forward(const HybridArrays<const T>&, T*, int64_t, int64_t); \
  template void hybrid_operators_backward(const HybridArrays<const T>&, const T*,             \
                                          const HybridArrays<T>&, int64_t, int64_t);          \
  template void hybrid_from_raw(const T*, const T*, T*, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
