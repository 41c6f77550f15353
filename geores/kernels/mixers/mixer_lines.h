// Operations on the rows or the columns of a token's matrix, for the mixers. S is a number, or a
// vector with one number for each of several tokens (lanes.h).
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::kernels {

template <bool Rows, class S, int N>
GEORES_HOST_DEVICE S sum_over(const manifold::Matrix<S, N>& m, int line) {
  S sum(0);
  for (int k = 0; k < N; ++k) sum += Rows ? m(line, k) : m(k, line);
  return sum;
}

// Softmax of logits/τ over each row, or over each column.
template <bool Rows, class S, int N>
GEORES_HOST_DEVICE manifold::Matrix<S, N> softmax(const manifold::Matrix<S, N>& logits,
                                                  S temperature) {
  using manifold::exponential, manifold::larger;
  manifold::Matrix<S, N> p;
  const S scale = S(1) / temperature;
  for (int line = 0; line < N; ++line) {
    const auto at = [&](auto& m, int k) -> auto& { return Rows ? m(line, k) : m(k, line); };
    auto largest = at(logits, 0);
    for (int k = 1; k < N; ++k) largest = larger(largest, at(logits, k));
    S sum(0);
    for (int k = 0; k < N; ++k) {
      at(p, k) = exponential((at(logits, k) - largest) * scale);
      sum += at(p, k);
    }
    const auto inverse = S(1) / sum;
    for (int k = 0; k < N; ++k) at(p, k) *= inverse;
  }
  return p;
}

template <bool Rows, class S, int N>
GEORES_HOST_DEVICE manifold::Matrix<S, N> softmax_backward(const manifold::Matrix<S, N>& p,
                                                           const manifold::Matrix<S, N>& dp,
                                                           S temperature) {
  manifold::Matrix<S, N> d;
  const S scale = S(1) / temperature;
  for (int line = 0; line < N; ++line) {
    const auto at = [&](auto& m, int k) -> auto& { return Rows ? m(line, k) : m(k, line); };
    S along(0);
    for (int k = 0; k < N; ++k) along += at(p, k) * at(dp, k);
    for (int k = 0; k < N; ++k) at(d, k) = at(p, k) * (at(dp, k) - along) * scale;
  }
  return d;
}

}  // namespace geores::kernels
