// Sinkhorn–Knopp, the doubly stochastic matrix diag(a) e^L diag(b) of logits L, as mHC
// (arXiv:2512.24880), JPmHC (arXiv:2602.18308), the EΔ paper's mHC and DeepSeek-V4 use it. All of
// them divide rows, then columns, by their sums, again and again:
//   P = e^L,   repeat:  P_ij /= Σ_k P_ik + guard,   P_ij /= Σ_k P_kj + guard        logits, P (n, n)
// The columns of P sum to 1 to rounding, its rows as far as the iteration has converged; of transposed
// logits the transpose has it the other way round. Logits may be clamped to ±bound; those beyond have
// no gradient.
//
// Without a guard e^L is taken relative to the largest logit of a row, which the first division
// cancels. Entries then stay in [0, 1] and need no logarithm. The price: a logit that is more than
// 80 below the largest of its row counts as 80 below it (700 in double). DeepSeek-V4's first division is
// a softmax: its guard is added to the quotients, not to the sums.
//
// There are two gradients, each exact for its own definition, with S = dL/dP:
//   implicit, of the limit:  dL/dL_ij = P_ij (S_ij − u_i − v_j), where u + Pv = (P⊙S)1 and
//     Pᵀu + v = (P⊙S)ᵀ1. Cost: O(n³), nothing stored.
//   unrolled, of the stopped iteration. Cost: twice the forward pass; stores divisors alone.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

struct SinkhornOptions {
  int iterations = 20;
  double bound = 10;     // of the logits; 0: they are not clamped
  double guard = 0;      // added to every sum
  bool softmax = false;  // whether the first division adds its guard to the quotients
};

// How far below the largest of its row a logit counts: e^−range and its inverse are numbers of this type.
template <class T>
inline constexpr double kSinkhornRange = 80;
template <>
inline constexpr double kSinkhornRange<double> = 700;

// p ← p / (sum + guard) over rows or columns. Returns the divisors.
template <bool Rows, class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> divide_lines(Matrix<T, N>& p, double guard) {
  Vector<T, N> divisors{};
  for (int line = 0; line < N; ++line) {
    T sum = T(guard);
    for (int k = 0; k < N; ++k) sum += Rows ? p(line, k) : p(k, line);
    divisors[line] = sum;
    const T inverse = T(1) / sum;
    for (int k = 0; k < N; ++k) (Rows ? p(line, k) : p(k, line)) *= inverse;
  }
  return divisors;
}

// p ← the matrix before such a division.
template <bool Rows, class T, int N>
GEORES_HOST_DEVICE constexpr void undo_division(Matrix<T, N>& p, const Vector<T, N>& divisors) {
  for (int line = 0; line < N; ++line)
    for (int k = 0; k < N; ++k) (Rows ? p(line, k) : p(k, line)) *= divisors[line];
}

// d ← the gradient before a division with the result p, from the gradient after it.
template <bool Rows, class T, int N>
GEORES_HOST_DEVICE constexpr void divide_lines_backward(const Matrix<T, N>& p,
                                                        const Vector<T, N>& divisors,
                                                        Matrix<T, N>& d) {
  for (int line = 0; line < N; ++line) {
    T along = T(0);
    for (int k = 0; k < N; ++k) along += Rows ? p(line, k) * d(line, k) : p(k, line) * d(k, line);
    const T inverse = T(1) / divisors[line];
    for (int k = 0; k < N; ++k) {
      T& entry = Rows ? d(line, k) : d(k, line);
      entry = (entry - along) * inverse;
    }
  }
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr void add_to_entries(Matrix<T, N>& p, double x) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) p(i, j) += T(x);
}

// The iteration itself, on a Matrix or on another type with these four functions: a GPU holds a
// matrix in several lanes (kernels/mixers/quad_sinkhorn.cuh).
GEORES_DEVICE_ARGUMENTS
template <class P>
GEORES_HOST_DEVICE constexpr auto divide_rows(P& p, int iteration, const SinkhornOptions& options) {
  const bool quotients = options.softmax && iteration == 0;
  const auto divisors = divide_lines<true>(p, quotients ? 0 : options.guard);
  if (quotients) add_to_entries(p, options.guard);
  return divisors;
}

GEORES_DEVICE_ARGUMENTS
template <class P>
GEORES_HOST_DEVICE constexpr void sinkhorn_iterations(P& p, const SinkhornOptions& options) {
  for (int k = 0; k < options.iterations; ++k) {
    divide_rows(p, k, options);
    divide_lines<false>(p, options.guard);
  }
}

// d, the gradient of the result of the iterations, becomes the gradient of their start. Divisors are
// kept for `Window` iterations at a time and multiplied back; a longer iteration runs again from its
// start for each window.
GEORES_DEVICE_ARGUMENTS
template <int Window = 32, class P>
GEORES_HOST_DEVICE constexpr void sinkhorn_iterations_backward(const P& start,
                                                               const SinkhornOptions& options,
                                                               P& d) {
  decltype(divide_lines<true>(d, 0.0)) rows[Window], columns[Window];
  for (int end = options.iterations; end > 0;) {
    const int first = end > Window ? end - Window : 0;
    auto p = start;
    for (int k = 0; k < end; ++k) {
      const int at = k > first ? k - first : 0;
      rows[at] = divide_rows(p, k, options);
      columns[at] = divide_lines<false>(p, options.guard);
    }
    for (; end > first; --end) {
      const int at = end - 1 - first;
      divide_lines_backward<false>(p, columns[at], d);
      undo_division<false>(p, columns[at]);
      if (options.softmax && end == 1) {  // subtracting the guard would leave rounding
        p = start;
        divide_lines<true>(p, 0);
      }
      divide_lines_backward<true>(p, rows[at], d);
      undo_division<true>(p, rows[at]);
    }
  }
}

namespace detail {

template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> sinkhorn_start(const Matrix<T, N>& logits,
                                               const SinkhornOptions& options) {
  const bool relative = options.guard == 0 || options.softmax;
  const T bound = T(options.bound), range = T(kSinkhornRange<T>);
  auto p = logits;
  for (int i = 0; i < N; ++i) {
    if (options.bound > 0)
      for (int j = 0; j < N; ++j) p(i, j) = clamp(p(i, j), -bound, bound);
    if (relative) {
      T largest = p(i, 0);
      for (int j = 1; j < N; ++j) largest = larger(largest, p(i, j));
      for (int j = 0; j < N; ++j) p(i, j) = larger(p(i, j) - largest, -range);
    }
    for (int j = 0; j < N; ++j) p(i, j) = exponential(p(i, j));
  }
  return p;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr void drop_clamped(const Matrix<T, N>& logits,
                                               const SinkhornOptions& options,
                                               Matrix<T, N>& gradient) {
  if (!(options.bound > 0)) return;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      gradient(i, j) = zero_beyond(logits(i, j), T(options.bound), gradient(i, j));
}

}  // namespace detail

template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> sinkhorn(const Matrix<T, N>& logits,
                                         const SinkhornOptions& options = {}) {
  auto p = detail::sinkhorn_start(logits, options);
  sinkhorn_iterations(p, options);
  return p;
}

// The gradient of the iteration itself, stopped after options.iterations.
template <int Window = 32, class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> sinkhorn_backward_unrolled(const Matrix<T, N>& logits,
                                                           const Matrix<T, N>& cotangent,
                                                           const SinkhornOptions& options = {}) {
  const auto start = detail::sinkhorn_start(logits, options);
  auto gradient = cotangent;
  sinkhorn_iterations_backward<Window>(start, options, gradient);
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) gradient(i, j) *= start(i, j);
  detail::drop_clamped(logits, options, gradient);
  return gradient;
}

// The implicit gradient by a direct solve. I − PᵀP is the Laplacian of a graph with weights w_jk =
// Σ_i P_ij P_ik, and its right side is the outflow of each node: Σ_k flow_jk, flow_jk = Σ_i P_ij
// P_ik (S_ij − S_ik). Eliminating a node gives its neighbours an edge each (a star becomes a mesh).
// Weights are never subtracted (as Grassmann, Taksar & Heyman 1985 do for Markov chains), and a flow
// stays as small as its edge's weight times a difference of S, where sums over the edges of a node
// would keep the rounding of the heaviest one. So float keeps its digits however close P is to a
// permutation or to blocks. Computed directly, I − PᵀP would then be nothing but rounding.
// `p` is sinkhorn(logits).
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> sinkhorn_backward_implicit(
    const Matrix<T, N>& logits, const Matrix<T, N>& p, const Matrix<T, N>& cotangent,
    const SinkhornOptions& options = {}) {
  Matrix<T, N> weight{}, flow{};  // below the diagonal: flow(k, j) would be −flow(j, k)
  for (int i = 0; i < N; ++i)
    for (int j = 1; j < N; ++j)
      for (int k = 0; k < j; ++k) {
        const T shared = p(i, j) * p(i, k);
        weight(j, k) += shared;
        flow(j, k) += shared * (cotangent(i, j) - cotangent(i, k));
      }

  Vector<T, N> degree{}, v{};
  for (int node = N - 1; node > 0; --node) {
    for (int k = 0; k < node; ++k) degree[node] += weight(node, k);
    // A node that is cut off has no flows either: any degree serves.
    degree[node] = one_for_zero(degree[node]);
    Vector<T, N> share{};
    for (int k = 0; k < node; ++k) share[k] = weight(node, k) / degree[node];
    for (int k = 1; k < node; ++k)
      for (int m = 0; m < k; ++m) {
        weight(k, m) += weight(node, k) * share[m];
        flow(k, m) += share[k] * flow(node, m) - share[m] * flow(node, k);
      }
  }
  for (int node = 1; node < N; ++node) {  // v[0] = 0: the system fixes v up to a constant
    T sum = 0;
    for (int k = 0; k < node; ++k) sum += flow(node, k) + weight(node, k) * v[k];
    v[node] = sum / degree[node];
  }

  Matrix<T, N> gradient{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      T sum = 0;  // S_ij − u_i − v_j, with u = (P⊙S)1 − Pv and the row sums of P equal to one
      for (int k = 0; k < N; ++k)
        sum += p(i, k) * ((cotangent(i, j) - cotangent(i, k)) - (v[j] - v[k]));
      gradient(i, j) = p(i, j) * sum;
    }
  detail::drop_clamped(logits, options, gradient);
  return gradient;
}

// The implicit gradient by Gauss–Seidel, u ← (P⊙S)1 − Pv, v ← (P⊙S)ᵀ1 − Pᵀu. Its error falls by
// σ₂(P)² a sweep: 0.9973 at mHC's initial logits (diagonal 0, off −8, n = 4), where 16 sweeps leave
// an error of 87 % of the gradient. For N(0, 1) logits they leave 9e-5 of it. Prefer the direct solve.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> sinkhorn_backward_gauss_seidel(
    const Matrix<T, N>& logits, const Matrix<T, N>& p, const Matrix<T, N>& cotangent, int sweeps,
    const SinkhornOptions& options = {}) {
  Vector<T, N> rows{}, columns{}, u{}, v{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      rows[i] += p(i, j) * cotangent(i, j);
      columns[j] += p(i, j) * cotangent(i, j);
    }
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    u = rows - p * v;
    v = columns - transpose_times(p, u);
  }
  Matrix<T, N> gradient{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) gradient(i, j) = p(i, j) * (cotangent(i, j) - u[i] - v[j]);
  detail::drop_clamped(logits, options, gradient);
  return gradient;
}

}  // namespace geores::manifold
