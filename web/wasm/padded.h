// Matrices of n = 2 … 8 streams as the leading block of an 8 × 8 matrix, so that a module holds one
// decomposition instead of one for each n. Zeros around a block change none of its singular values
// and eigenvalues: rotations and reflections of manifold/ leave zero rows and columns exactly zero.
#pragma once

#include "geores/manifold/algebra/eigen.h"
#include "geores/manifold/algebra/solve.h"
#include "geores/manifold/algebra/svd.h"
#include "geores/portable/streams.h"
#include "web/wasm/pack.h"

namespace geores::web {

using portable::kMostStreams;
using portable::Row;
using portable::Square;

// The leading n × n block, with `outside` on the rest of the diagonal.
inline Square block(const Square& a, int n, double outside) {
  Square result{};
  for (int i = 0; i < kMostStreams; ++i)
    for (int j = 0; j < kMostStreams; ++j)
      result(i, j) = i < n && j < n ? a(i, j) : (i == j ? outside : 0);
  return result;
}

template <int N>
Square padded(const manifold::Matrix<double, N>& a) {
  Square result{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) result(i, j) = a(i, j);
  return result;
}

inline Row seeded_row(manifold::SplitMix64& random, int n) {
  Row row{};
  for (int i = 0; i < n; ++i) row[i] = random.normal();
  return row;
}

inline Row singular_values_of(const Square& a, int n) {
  return manifold::singular_values(block(a, n, 0));
}

struct ComplexRow {
  Row re, im;
};

// Of the block: by real part, largest first, then by imaginary part. Parts closer than 1e-9 count
// as equal, so that rounding does not decide the order.
inline ComplexRow eigenvalues_of(const Square& a, int n) {
  const auto values = manifold::eigenvalues(block(a, n, 0));
  ComplexRow row{values.real, values.imaginary};
  const auto before = [&](int i, int j) {
    const double apart = row.re[i] - row.re[j];
    return apart > 1e-9 || (apart > -1e-9 && row.im[i] > row.im[j]);
  };
  for (int i = 1; i < n; ++i)
    for (int k = i; k > 0 && before(k, k - 1); --k) {
      manifold::exchange(row.re[k], row.re[k - 1]);
      manifold::exchange(row.im[k], row.im[k - 1]);
    }
  return row;
}

inline double determinant_of(const Square& a, int n) {
  return manifold::determinant(block(a, n, 1));
}

// AᵀA − I on the block.
inline Square gram_defect(const Square& a, int n) {
  const auto inside = block(a, n, 0);
  return manifold::transpose(inside) * inside - block(manifold::identity<double, 8>(), n, 0);
}

// Row by row, n × n values.
inline void pack_block(const Square& a, int n, double* to) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) *to++ = a(i, j);
}

}  // namespace geores::web
