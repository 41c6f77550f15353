#include "geores/kernels/mixers/mixers.h"

#include "geores/kernels/mixers/mixer_lines.h"
#include "geores/kernels/mixers/token_groups.h"
#include "geores/manifold/cayley_iterative.h"
#include "geores/manifold/spectral_sphere.h"

namespace geores::kernels {
namespace {

// (I + M)⁻¹(I − M) for skew M. The symmetric part of I + M is I, so elimination needs no pivots:
// all of them are at least 1.
template <class T, int N>
LaneMatrix<T, N> cayley_of_skew(const LaneMatrix<T, N>& m) {
  const auto one = manifold::identity<Lanes<T>, N>();
  auto a = one + m, x = one - m;
  for (int p = 0; p < N; ++p) {
    const auto inverse = Lanes<T>(1) / a(p, p);
    for (int i = p + 1; i < N; ++i) {
      const auto factor = a(i, p) * inverse;
      for (int j = p + 1; j < N; ++j) a(i, j) -= factor * a(p, j);
      for (int j = 0; j < N; ++j) x(i, j) -= factor * x(p, j);
    }
  }
  for (int p = N - 1; p >= 0; --p) {
    const auto inverse = Lanes<T>(1) / a(p, p);
    for (int j = 0; j < N; ++j) {
      for (int k = p + 1; k < N; ++k) x(p, j) -= a(p, k) * x(k, j);
      x(p, j) *= inverse;
    }
  }
  return x;
}

// dL/dM = −½ (I + Q)ᵀ S (I + Q)ᵀ.
template <class T, int N>
LaneMatrix<T, N> cayley_of_skew_backward(const LaneMatrix<T, N>& q, const LaneMatrix<T, N>& s) {
  const auto shifted = transpose(manifold::identity<Lanes<T>, N>() + q);
  return Lanes<T>(-0.5) * (shifted * s * shifted);
}

template <class T, int N>
LaneMatrix<T, N> routed_cayley(const LaneMatrix<T, N>& raw, const CayleyRoutes<T>& routes) {
  if (routes.steps >= 0)
    return manifold::iterative_cayley(raw, Lanes<T>(routes.alpha), routes.steps);
  return cayley_of_skew<T, N>(Lanes<T>(T(-0.5) * routes.alpha) * (raw - transpose(raw)));
}

template <class T, int N>
LaneMatrix<T, N> routed_cayley_backward(const LaneMatrix<T, N>& raw, const CayleyRoutes<T>& routes,
                                        const LaneMatrix<T, N>& s) {
  if (routes.steps >= 0)
    return manifold::iterative_cayley_backward(raw, Lanes<T>(routes.alpha), routes.steps, s);
  const auto dm = cayley_of_skew_backward<T, N>(routed_cayley(raw, routes), s);
  return Lanes<T>(T(-0.5) * routes.alpha) * (dm - transpose(dm));
}

// The spectral spheres of one group of tokens: the matrices that they are made of.
template <class T, int M>
struct Sphere {
  LaneMatrix<T, M> u, v;
  manifold::Vector<Lanes<T>, M> sigma;
};

template <class T, int M>
Sphere<T, M> sphere_of(const SphereArrays<const T>& in, int64_t first, int64_t tokens) {
  constexpr int entries = M * (M - 1) / 2;
  const auto left = gather<1, entries>(in.left + first * entries, entries, tokens);
  const auto right = gather<1, entries>(in.right + first * entries, entries, tokens);
  const auto sigma = gather<1, M>(in.sigma + first * M, M, tokens);
  Sphere<T, M> sphere;
  sphere.u = cayley_of_skew<T, M>(manifold::skew_from_entries<Lanes<T>, M>(left.at[0]));
  sphere.v = cayley_of_skew<T, M>(manifold::skew_from_entries<Lanes<T>, M>(right.at[0]));
  for (int i = 0; i < M; ++i) sphere.sigma[i] = sigma(0, i);
  return sphere;
}

// From the gradient of U or V to the gradient of its skew entries.
template <class T, int M>
void scatter_entries(const LaneMatrix<T, M>& q, const LaneMatrix<T, M>& dq, T* to, int64_t first,
                     int64_t tokens) {
  constexpr int entries = M * (M - 1) / 2;
  manifold::Matrix<Lanes<T>, 1, entries> d;
  manifold::skew_from_entries_backward(cayley_of_skew_backward<T, M>(q, dq), d.at[0]);
  scatter(d, to + first * entries, entries, tokens);
}

}  // namespace

template <class T>
void spectral_sphere_forward(const SphereArrays<const T>& in, T* h, const MixerShape& s) {
  for_each_group<T>(s, [&](auto n, int64_t first, int64_t tokens) {
    if constexpr (n >= 3) {
      const auto sphere = sphere_of<T, n - 1>(in, first, tokens);
      scatter(manifold::spectral_sphere(sphere.u, sphere.sigma, sphere.v), h + first * n * n, n * n,
              tokens);
    }
  });
}

template <class T>
void spectral_sphere_backward(const SphereArrays<const T>& in, const T* dh,
                              const SphereArrays<T>& gradients, const MixerShape& s) {
  for_each_group<T>(s, [&](auto n, int64_t first, int64_t tokens) {
    if constexpr (n >= 3) {
      constexpr int m = n - 1;
      const auto sphere = sphere_of<T, m>(in, first, tokens);
      const auto d = manifold::spectral_sphere_backward(
          sphere.u, sphere.sigma, sphere.v, gather<n, n>(dh + first * n * n, n * n, tokens));
      scatter_entries<T, m>(sphere.u, d.u, gradients.left, first, tokens);
      scatter_entries<T, m>(sphere.v, d.v, gradients.right, first, tokens);
      manifold::Matrix<Lanes<T>, 1, m> sigma;
      for (int i = 0; i < m; ++i) sigma(0, i) = d.sigma[i];
      scatter(sigma, gradients.sigma + first * m, m, tokens);
    }
  });
}

template <class T>
void cayley_routes_forward(const T* raw, const CayleyRoutes<T>& routes, T* res, T* read, T* write,
                           const MixerShape& s) {
  const auto size2 = s.n * s.n, all = (res ? 3 : 2) * size2;
  for_each_group<T>(s, [&](auto n, int64_t first, int64_t tokens) {
    const T* token = raw + first * all;
    const auto pre = softmax<true>(gather<n, n>(token, all, tokens), Lanes<T>(routes.temperature));
    const auto post =
        softmax<false>(gather<n, n>(token + size2, all, tokens), Lanes<T>(routes.temperature));
    manifold::Matrix<Lanes<T>, 1, n> reads, writes;
    for (int j = 0; j < n; ++j) {
      reads(0, j) = sum_over<false>(pre, j) * Lanes<T>(T(1) / T(n));
      writes(0, j) = sum_over<true>(post, j);
    }
    scatter(reads, read + first * n, n, tokens);
    scatter(writes, write + first * n, n, tokens);
    if (!res) return;
    scatter(routed_cayley<T, n>(gather<n, n>(token + 2 * size2, all, tokens), routes),
            res + first * size2, size2, tokens);
  });
}

template <class T>
void cayley_routes_backward(const T* raw, const CayleyRoutes<T>& routes, const T* dres,
                            const T* dread, const T* dwrite, T* draw, const MixerShape& s) {
  const auto size2 = s.n * s.n, all = (dres ? 3 : 2) * size2;
  for_each_group<T>(s, [&](auto n, int64_t first, int64_t tokens) {
    const T* token = raw + first * all;
    T* dtoken = draw + first * all;
    const auto reads = gather<1, n>(dread + first * n, n, tokens);
    const auto writes = gather<1, n>(dwrite + first * n, n, tokens);
    LaneMatrix<T, n> dpre, dpost;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        dpre(i, j) = reads(0, j) * Lanes<T>(T(1) / T(n));
        dpost(i, j) = writes(0, i);
      }
    const auto pre = softmax<true>(gather<n, n>(token, all, tokens), Lanes<T>(routes.temperature));
    const auto post =
        softmax<false>(gather<n, n>(token + size2, all, tokens), Lanes<T>(routes.temperature));
    scatter(softmax_backward<true>(pre, dpre, Lanes<T>(routes.temperature)), dtoken, all, tokens);
    scatter(softmax_backward<false>(post, dpost, Lanes<T>(routes.temperature)), dtoken + size2, all,
            tokens);
    if (!dres) return;
    scatter(routed_cayley_backward<T, n>(gather<n, n>(token + 2 * size2, all, tokens), routes,
                                         gather<n, n>(dres + first * size2, size2, tokens)),
            dtoken + 2 * size2, all, tokens);
  });
}

#define GEORES_INSTANTIATE(T)                                                                 \
  template void cayley_routes_forward(const T*, const CayleyRoutes<T>&, T*, T*, T*,           \
                                      const MixerShape&);                                     \
  template void cayley_routes_backward(const T*, const CayleyRoutes<T>&, const T*, const T*,  \
                                       const T*, T*, const MixerShape&);                      \
  template void spectral_sphere_forward(const SphereArrays<const T>&, T*, const MixerShape&); \
  template void spectral_sphere_backward(const SphereArrays<const T>&, const T*,              \
                                         const SphereArrays<T>&, const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
