// Mixers of n ≤ 8 streams with n known at run time, as the leading block of an 8 × 8 matrix: a
// program then holds one size of every map of manifold/ instead of one for each n. Padding is exact:
// outside of the block the generators are zero, so that rotations and Cayley maps are the identity
// there, Sinkhorn's blocks do not touch, and the Helmert basis of n streams is the beginning of that
// of 8.
#pragma once

#include "geores/manifold/cayley_general.h"
#include "geores/manifold/grassmann.h"
#include "geores/manifold/hybrid.h"
#include "geores/manifold/sinkhorn.h"
#include "geores/manifold/spectral_sphere.h"

namespace geores::portable {

inline constexpr int kMostStreams = 8;
using Square = manifold::Matrix<double, kMostStreams>;
using Row = manifold::Vector<double, kMostStreams>;

// The n × columns values of `at`, row by row, in the leading block; zero elsewhere.
inline Square leading_block(const double* at, int n, int columns) {
  Square result{};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < columns; ++j) result(i, j) = *at++;
  return result;
}

// X ← A X for the streams X (n, width) of one token; `buffer` holds as many values.
inline void mix_streams(const Square& a, int n, int width, double* x, double* buffer) {
  for (int i = 0; i < n; ++i)
    for (int c = 0; c < width; ++c) {
      double sum = 0;
      for (int j = 0; j < n; ++j) sum += a(i, j) * x[j * width + c];
      buffer[i * width + c] = sum;
    }
  for (int i = 0; i < n * width; ++i) x[i] = buffer[i];
}

// The angle by which EΔ's rotation turns its plane.
inline double rotation_angle(const manifold::HybridGenerators<double, kMostStreams>& p) {
  return 2 * __builtin_atan(manifold::rotation_plane(p.u, p.v, p.beta).omega);
}

// Sinkhorn–Knopp, columns last; logits clamped to ±bound, or none where bound is 0.
inline Square doubly_stochastic(const Square& logits, int n, int iterations, double bound = 10) {
  constexpr double infinity = __builtin_inf();
  Square apart{};
  for (int i = 0; i < kMostStreams; ++i) {
    double largest = bound > 0 ? 0 : logits(i, 0);  // the first normalisation removes it
    for (int j = 1; j < n && bound == 0; ++j) largest = manifold::larger(largest, logits(i, j));
    for (int j = 0; j < kMostStreams; ++j) {
      const bool inside = i < n && j < n;
      apart(i, j) = !inside     ? (i == j ? 0 : -infinity)
                    : bound > 0 ? manifold::clamp(logits(i, j), -bound, bound)
                                : logits(i, j) - largest;
    }
  }
  return manifold::sinkhorn_scaling(apart, {.iterations = iterations, .clamp = infinity});
}

// Rows, then columns, then rows ... divided by their sums, `count` times; `guard` is added to each sum.
inline void normalize_lines(Square& p, int n, int count, double guard) {
  for (int pass = 0; pass < count; ++pass)
    for (int i = 0; i < n; ++i) {
      double sum = guard;
      for (int j = 0; j < n; ++j) sum += pass % 2 == 0 ? p(i, j) : p(j, i);
      for (int j = 0; j < n; ++j) (pass % 2 == 0 ? p(i, j) : p(j, i)) /= sum;
    }
}

// As DeepSeek-V4 has it: softmax of the columns, then rows, then (iterations − 1) × (columns, rows);
// `guard` is added to the softmax and to every sum.
inline Square softmax_doubly_stochastic(const Square& logits, int n, int iterations, double guard) {
  Square p{};
  for (int j = 0; j < n; ++j) {
    double largest = logits(0, j), sum = 0;
    for (int i = 1; i < n; ++i) largest = manifold::larger(largest, logits(i, j));
    for (int i = 0; i < n; ++i) sum += p(i, j) = manifold::exponential(logits(i, j) - largest);
    for (int i = 0; i < n; ++i) p(i, j) = p(i, j) / sum + guard;
  }
  normalize_lines(p, n, 2 * iterations - 1, guard);
  return p;
}

// The EΔ paper's: every sum gets 1e-8 against division by zero.
inline Square guarded_doubly_stochastic(const Square& logits, int n, int iterations) {
  Square p{};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) p(i, j) = manifold::exponential(logits(i, j));
  normalize_lines(p, n, 2 * iterations, 1e-8);
  return p;
}

// sHC's mixer from the entries of U's and V's skew matrices, above the diagonal and row by row,
// (n−1)(n−2)/2 each, and from σ, n − 1 values.
inline Square sphere(const double* left, const double* right, const double* sigma, int n) {
  constexpr int most = kMostStreams - 1;
  const auto turned = [&](const double* entries) {
    Square skew{};
    for (int i = 0; i + 1 < n; ++i)
      for (int j = i + 1; j + 1 < n; ++j) {
        skew(i, j) = *entries++;
        skew(j, i) = -skew(i, j);
      }
    const auto wide = manifold::cayley_transform(skew);
    manifold::Matrix<double, most> result{};
    for (int i = 0; i < most; ++i)
      for (int j = 0; j < most; ++j) result(i, j) = wide(i, j);
    return result;
  };
  manifold::Vector<double, most> padded{};
  for (int i = 0; i + 1 < n; ++i) padded[i] = sigma[i];
  auto h = manifold::spectral_sphere(turned(left), padded, turned(right));
  // The mean of n streams instead of that of 8.
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) h(i, j) += 1.0 / n - 1.0 / kMostStreams;
  return h;
}

// JPmHC's Grassmann mixer UUᵀ, U from a QR of the first n/2 columns.
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

}  // namespace geores::portable
