// Sinkhorn–Knopp, the doubly stochastic matrix diag(a) e^L diag(b) of clamped logits L, as mHC
// uses it (in arXiv:2603.20896, Eqs. 1–9; JPmHC, arXiv:2602.18308):
//   L = clamp(logits, ±10),  P_ij = e^{L_ij + f_i + g_j}               logits, P (n, n); f, g (n)
//   from g = 0, repeat:  f_i = −log Σ_j e^{L_ij + g_j},   g_j = −log Σ_i e^{L_ij + f_i}
// Without a clamp (bounded = false) L = logits, as mHC has it (Xie et al., arXiv:2512.24880).
// Invariant: rows are normalized first, then columns. So the columns of P sum to 1 to rounding, and
// its rows as far as the iteration has converged; of transposed logits the transpose has it the
// other way round. Cost: 2n² exponentials per iteration;
// sinkhorn_scaling() needs n² in all.
//
// There are two gradients, each exact for its own definition, with S = dL/dP:
//   implicit, of the limit:  dL/dL_ij = P_ij (S_ij − u_i − v_j), where u + Pv = (P⊙S)1 and
//     Pᵀu + v = (P⊙S)ᵀ1. Cost: O(n³), nothing stored.
//   unrolled, of the stopped iteration. Cost: as the forward pass; stores some of the g.
// Entries at the clamp's limits receive no gradient.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

template <class T>
struct SinkhornOptions {
  int iterations = 20;
  T clamp = 10;         // sinkhorn_scaling() needs it below 25 in float, below 200 in double
  bool bounded = true;  // false: no clamp
  // Without a clamp sinkhorn_scaling() still bounds how far a logit is below the largest of its
  // row: at most 40 in float and 300 in double, or its factors would overflow.
  T range = 40;
};

namespace detail {

template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> clamp_logits(const Matrix<T, N>& logits, T bound) {
  Matrix<T, N> result{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) result(i, j) = clamp(logits(i, j), -bound, bound);
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> bounded_logits(const Matrix<T, N>& logits,
                                                         const SinkhornOptions<T>& options) {
  return options.bounded ? clamp_logits(logits, options.clamp) : logits;
}

// The logits of each row relative to the largest one: the first normalisation of rows cancels
// the subtraction, and potentials stay small, so that they keep their digits.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> relative_to_largest_of_row(const Matrix<T, N>& logits) {
  Matrix<T, N> result{};
  for (int i = 0; i < N; ++i) {
    T largest = logits(i, 0);
    for (int j = 1; j < N; ++j) largest = larger(largest, logits(i, j));
    for (int j = 0; j < N; ++j) result(i, j) = logits(i, j) - largest;
  }
  return result;
}

// The same, none below −range.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> below_largest_of_row(const Matrix<T, N>& logits,
                                                               T range) {
  auto result = relative_to_largest_of_row(logits);
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) result(i, j) = larger(result(i, j), -range);
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr void drop_clamped(const Matrix<T, N>& logits,
                                               const SinkhornOptions<T>& options,
                                               Matrix<T, N>& gradient) {
  if (!options.bounded) return;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      gradient(i, j) = zero_beyond(logits(i, j), options.clamp, gradient(i, j));
}

// −log Σ_j e^{x_j}, computed relative to the largest x_j.
template <class T, int N>
GEORES_HOST_DEVICE T minus_log_sum_exp(const Vector<T, N>& x) {
  T largest = x[0];
  for (int j = 1; j < N; ++j) largest = larger(largest, x[j]);
  T sum = 0;
  for (int j = 0; j < N; ++j) sum += exponential(x[j] - largest);
  return -largest - logarithm(sum);
}

// Computes f from g: afterwards the rows of e^{L + f + g} sum to one.
template <class T, int N>
GEORES_HOST_DEVICE Vector<T, N> row_potential(const Matrix<T, N>& l, const Vector<T, N>& g) {
  Vector<T, N> f{};
  for (int i = 0; i < N; ++i) {
    Vector<T, N> row{};
    for (int j = 0; j < N; ++j) row[j] = l(i, j) + g[j];
    f[i] = minus_log_sum_exp(row);
  }
  return f;
}

template <class T, int N>
GEORES_HOST_DEVICE Vector<T, N> column_potential(const Matrix<T, N>& l, const Vector<T, N>& f) {
  return row_potential(transpose(l), f);
}

template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> coupling(const Matrix<T, N>& l, const Vector<T, N>& f,
                                         const Vector<T, N>& g) {
  Matrix<T, N> p{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) p(i, j) = exponential(l(i, j) + f[i] + g[j]);
  return p;
}

}  // namespace detail

template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> sinkhorn(const Matrix<T, N>& logits,
                                         const SinkhornOptions<T>& options = {}) {
  const auto l = detail::bounded_logits(logits, options);
  Vector<T, N> f{}, g{};
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    f = detail::row_potential(l, g);
    g = detail::column_potential(l, f);
  }
  return detail::coupling(l, f, g);
}

// The same matrix by a = 1/(Kb), b = 1/(Kᵀa), K = e^L: no exponential inside the loop. This is safe
// because the clamp bounds the factors to e^{±3·clamp}, or `range` to e^{±2·range}.
template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> sinkhorn_scaling(const Matrix<T, N>& logits,
                                                 const SinkhornOptions<T>& options = {}) {
  auto p = detail::coupling(options.bounded ? detail::clamp_logits(logits, options.clamp)
                                            : detail::below_largest_of_row(logits, options.range),
                            Vector<T, N>{}, Vector<T, N>{});
  Vector<T, N> a{}, b{};
  for (int i = 0; i < N; ++i) a[i] = b[i] = T(1);
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    const auto rows = p * b;
    for (int i = 0; i < N; ++i) a[i] = T(1) / rows[i];
    const auto columns = transpose_times(p, a);
    for (int j = 0; j < N; ++j) b[j] = T(1) / columns[j];
  }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) p(i, j) *= a[i] * b[j];
  return p;
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
    const SinkhornOptions<T>& options = {}) {
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
    const SinkhornOptions<T>& options = {}) {
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

// The gradient of the iteration itself, stopped after options.iterations. g is stored for `Window`
// iterations at a time; a longer iteration is run again from its start for each window.
template <int Window = 32, class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> sinkhorn_backward_unrolled(const Matrix<T, N>& logits,
                                                           const Matrix<T, N>& cotangent,
                                                           const SinkhornOptions<T>& options = {}) {
  const auto l = detail::bounded_logits(logits, options);
  const auto p = sinkhorn(logits, options);
  Matrix<T, N> gradient{};
  Vector<T, N> df{}, dg{};
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      gradient(i, j) = p(i, j) * cotangent(i, j);
      df[i] += gradient(i, j);
      dg[j] += gradient(i, j);
    }

  Vector<T, N> kept[Window + 1];  // g before iterations first, first + 1, ...
  for (int end = options.iterations; end > 0;) {
    const int first = end > Window ? end - Window : 0;
    Vector<T, N> g{};
    for (int iteration = 0; iteration < end; ++iteration) {
      if (iteration >= first) kept[iteration - first] = g;
      g = detail::column_potential(l, detail::row_potential(l, g));
    }
    kept[end - first] = g;
    for (; end > first; --end) {
      const auto& before = kept[end - 1 - first];
      const auto f = detail::row_potential(l, before);
      const auto columns = detail::coupling(l, f, kept[end - first]);
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
          const T flow = dg[j] * columns(i, j);
          gradient(i, j) -= flow;
          df[i] -= flow;
        }
      const auto rows = detail::coupling(l, f, before);
      dg = {};
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
          const T flow = df[i] * rows(i, j);
          gradient(i, j) -= flow;
          dg[j] -= flow;
        }
      df = {};
    }
  }
  detail::drop_clamped(logits, options, gradient);
  return gradient;
}

}  // namespace geores::manifold
