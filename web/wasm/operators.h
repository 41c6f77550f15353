// Random stream operators of every connection, for n = 2 … 8 streams in the leading block of an
// 8 × 8 matrix. Padding is exact: outside of the block the generators are zero, so that rotations
// and Cayley maps are the identity there, Sinkhorn's blocks do not touch, and the Helmert basis of
// n streams is the beginning of that of 8.
#pragma once

#include "geores/manifold/cayley_general.h"
#include "geores/manifold/cayley_iterative.h"
#include "geores/manifold/gate_descent.h"
#include "geores/manifold/grassmann.h"
#include "geores/manifold/permutation.h"
#include "geores/manifold/sinkhorn.h"
#include "geores/manifold/spectral_sphere.h"
#include "web/wasm/padded.h"

namespace geores::web {

inline Square seeded_block(manifold::SplitMix64& random, int n, double scale) {
  Square result{};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) result(i, j) = scale * random.normal();
  return result;
}

inline Square hybrid(const Row& u, const Row& v, const Row& k, double beta, double gamma) {
  return manifold::hybrid_operator<double, kMostStreams>(
      {u, v, manifold::normalise(k).direction, beta, gamma});
}

inline Square erasing(const Row& k, double beta) {
  return manifold::delta_operator(manifold::normalise(k).direction, beta);
}

inline Square doubly_stochastic(const Square& logits, int n, int iterations) {
  constexpr double infinity = __builtin_inf();
  Square apart{};
  for (int i = 0; i < kMostStreams; ++i)
    for (int j = 0; j < kMostStreams; ++j)
      apart(i, j) =
          i < n && j < n ? manifold::clamp(logits(i, j), -10.0, 10.0) : (i == j ? 0 : -infinity);
  return manifold::sinkhorn_scaling(apart, {.iterations = iterations, .clamp = infinity});
}

// JPmHC's fixed-point Cayley map: α = 0.1, two steps.
inline Square fixed_point_rotation(const Square& raw) {
  return manifold::iterative_cayley(raw, 0.1, 2);
}

inline Square exact_rotation(const Square& raw) {
  return manifold::cayley_transform(-0.05 * (raw - manifold::transpose(raw)));
}

// sHC from the logits of U's and V's skew entries and of σ.
inline Square sphere(const Square& u_logits, const Square& v_logits, const Row& sigma_logits,
                     int n) {
  constexpr int most = kMostStreams - 1;
  const auto turned = [&](const Square& logits) {
    manifold::Matrix<double, most> skew{};
    for (int i = 0; i + 1 < n; ++i)
      for (int j = i + 1; j + 1 < n; ++j) {
        skew(i, j) = manifold::hyperbolic_tangent(logits(i, j));
        skew(j, i) = -skew(i, j);
      }
    return manifold::cayley_transform(skew);
  };
  manifold::Vector<double, most> sigma{};
  for (int i = 0; i + 1 < n; ++i) sigma[i] = manifold::hyperbolic_tangent(sigma_logits[i]);
  auto h = manifold::spectral_sphere(turned(u_logits), sigma, turned(v_logits));
  // The mean of n streams in place of that of 8.
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) h(i, j) += 1.0 / n - 1.0 / kMostStreams;
  return h;
}

// UUᵀ, U from a QR of the first n/2 columns.
inline Square projector(const Square& raw, int n) {
  constexpr int most = kMostStreams / 2;
  const int columns = n / 2;
  manifold::Matrix<double, kMostStreams, most> a{};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < columns; ++j) a(i, j) = raw(i, j);
  auto u = manifold::qr(a).q;
  for (int i = 0; i < kMostStreams; ++i)
    for (int j = columns; j < most; ++j) u(i, j) = 0;
  return manifold::subspace_projector(u);
}

// A mixture of `Set`'s permutations of n streams; K logits.
template <int N, class Set>
Square mixture(const double* logits, const Set& set) {
  return padded(manifold::permutation_mixture<N>(logits, set));
}

// Calls f with n as a compile-time constant, 2 … 8.
template <class F>
Square for_streams(int n, F&& f) {
  switch (n) {
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 5:
      return f.template operator()<5>();
    case 6:
      return f.template operator()<6>();
    case 7:
      return f.template operator()<7>();
    default:
      return f.template operator()<8>();
  }
}

}  // namespace geores::web
