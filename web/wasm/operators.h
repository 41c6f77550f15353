// Random stream operators of every connection, for n = 2 … 8 streams in the leading block of an
// 8 × 8 matrix (geores/portable/streams.h).
#pragma once

#include "geores/manifold/cayley_iterative.h"
#include "geores/manifold/gate_descent.h"
#include "geores/manifold/permutation.h"
#include "web/wasm/padded.h"

namespace geores::web {

using portable::doubly_stochastic;
using portable::projector;

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
  const auto entries_of = [&](const Square& logits) {
    manifold::Vector<double, most*(most - 1) / 2> entries{};
    for (int i = 0, entry = 0; i + 1 < n; ++i)
      for (int j = i + 1; j + 1 < n; ++j)
        entries[entry++] = manifold::hyperbolic_tangent(logits(i, j));
    return entries;
  };
  Row sigma{};
  for (int i = 0; i + 1 < n; ++i) sigma[i] = manifold::hyperbolic_tangent(sigma_logits[i]);
  return portable::sphere(entries_of(u_logits).at, entries_of(v_logits).at, sigma.at, n);
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

// ---- the numbers of a layer's operator ----

constexpr int kStreams = 4;
constexpr int kSublayers = 24;  // of the language models whose mixers are trained

inline manifold::SplitMix64 stream_of(unsigned long long seed, int line, int layer) {
  return manifold::SplitMix64(manifold::SplitMix64(seed).next() ^
                              manifold::SplitMix64(1000 * layer + line + 1).next());
}

// Matrix `layer` (from 1) of one connection's trained mixers.
inline Square trained_mixer(const double* trained, int layer) {
  const double* values = trained + kStreams * kStreams * ((layer - 1) % kSublayers);
  Square result{};
  for (int i = 0; i < kStreams; ++i)
    for (int j = 0; j < kStreams; ++j) result(i, j) = values[kStreams * i + j];
  return result;
}

// EΔ's operator of n streams at its start: u and v are small, and the gate leans to the rotation.
inline Square hybrid_at_start(manifold::SplitMix64& random, int n, double gamma) {
  constexpr double size = 0.02;
  const auto u = seeded_row(random, n), v = seeded_row(random, n), k = seeded_row(random, n);
  return hybrid(size * u, size * v, k, manifold::logarithm(2.0), gamma);
}

inline const double kGateAtStart = manifold::gate_value(1.5);

inline Square sinkhorn_at_start(int n, int iterations = 20) {
  Square logits{};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) logits(i, j) = i == j ? 0 : -8;
  return doubly_stochastic(logits, n, iterations);
}

inline Square sphere_at_start(int n) {
  Row sigma{};
  for (int i = 0; i < n; ++i) sigma[i] = 4;
  return sphere({}, {}, sigma, n);
}

// JPmHC's linear map at its start: N(0, 0.02) of width 512.
inline const double kWeightsAtStart = 0.02 * manifold::square_root(512.0);

}  // namespace geores::web
