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

// `entry(i, j)` in the leading block of n streams, and the identity outside of it.
template <class F>
Square beside_identity(int n, F&& entry) {
  auto p = manifold::identity<double, kMostStreams>();
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) p(i, j) = entry(i, j);
  return p;
}

inline double largest_of_row(const Square& logits, int i, int n) {
  double largest = logits(i, 0);
  for (int j = 1; j < n; ++j) largest = manifold::larger(largest, logits(i, j));
  return largest;
}

// Sinkhorn–Knopp, columns last; logits clamped to ±bound, or none where bound is 0. With a guard on
// their exponentials alone, as the EΔ paper has it.
inline Square doubly_stochastic(const Square& logits, int n, int iterations, double bound = 10,
                                double guard = 0) {
  auto p = beside_identity(n, [&](int i, int j) {
    const double logit = bound > 0 ? manifold::clamp(logits(i, j), -bound, bound) : logits(i, j);
    return manifold::exponential(bound > 0 || guard > 0 ? logit
                                                        : logit - largest_of_row(logits, i, n));
  });
  manifold::sinkhorn_iterations(p, {.iterations = iterations, .guard = guard});
  return p;
}

// As DeepSeek-V4 has it, on transposed logits: softmax of the rows, then columns, then
// (iterations − 1) × (rows, columns); `guard` is added to the softmax and to every sum.
inline Square softmax_doubly_stochastic(const Square& logits, int n, int iterations, double guard) {
  auto softmax = beside_identity(n, [&](int i, int j) {
    return manifold::exponential(logits(i, j) - largest_of_row(logits, i, n));
  });
  manifold::divide_lines<true>(softmax, 0);
  auto p = beside_identity(n, [&](int i, int j) { return softmax(i, j) + guard; });
  manifold::divide_lines<false>(p, guard);
  manifold::sinkhorn_iterations(p, {.iterations = iterations - 1, .guard = guard});
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
