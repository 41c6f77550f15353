#include "geores/kernels/mixers/sinkhorn.h"

#include "geores/kernels/mixers/token_groups.h"

namespace geores::manifold {

template <class T>
inline constexpr double kSinkhornRange<kernels::Lanes<T>> = kSinkhornRange<T>;

}  // namespace geores::manifold

namespace geores::kernels {
namespace {

template <class T, int N>
LaneMatrix<T, N> turned(const LaneMatrix<T, N>& m, bool transposed) {
  return transposed ? transpose(m) : m;
}

}  // namespace

template <class T>
void sinkhorn_forward(const T* logits, const Sinkhorn& spec, T* p, const MixerShape& s) {
  const auto size2 = s.n * s.n;
  for_each_group<T>(s, [&](auto n, int64_t first, int64_t tokens) {
    const auto m = gather<n, n>(logits + first * size2, size2, tokens);
    const auto made = manifold::sinkhorn(turned<T, n>(m, spec.rows_last), spec.options);
    scatter(turned<T, n>(made, spec.rows_last), p + first * size2, size2, tokens);
  });
}

template <class T>
void sinkhorn_backward(const T* logits, const Sinkhorn& spec, const T* p, const T* dp, T* dlogits,
                       const MixerShape& s) {
  const auto size2 = s.n * s.n;
  for_each_group<T>(s, [&](auto n, int64_t first, int64_t tokens) {
    const auto at = [&](const T* values) {
      return turned<T, n>(gather<n, n>(values + first * size2, size2, tokens), spec.rows_last);
    };
    const auto made =
        spec.unrolled
            ? manifold::sinkhorn_backward_unrolled(at(logits), at(dp), spec.options)
            : manifold::sinkhorn_backward_implicit(at(logits), at(p), at(dp), spec.options);
    scatter(turned<T, n>(made, spec.rows_last), dlogits + first * size2, size2, tokens);
  });
}

#define GEORES_INSTANTIATE(T)                                                        \
  template void sinkhorn_forward(const T*, const Sinkhorn&, T*, const MixerShape&);  \
  template void sinkhorn_backward(const T*, const Sinkhorn&, const T*, const T*, T*, \
                                  const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
