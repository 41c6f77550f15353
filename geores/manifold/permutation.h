// Permutations of n streams and their convex mixtures:
//   (P_π x)_i = x_{π(i)},   H = Σ_m softmax(logits)_m P_{π_m}             logits (K), H (n, n)
// mHC-lite (in arXiv:2603.20896) mixes all n! permutations, JPmHC (arXiv:2602.18308) six.
// Invariant: every mixture is doubly stochastic, to rounding, for any logits; hence ‖H‖₂ = 1 and
// −1 ≤ det H ≤ 1.
//
// Cost: O(K n) forward and backward; no matrix is formed for a single permutation.
#pragma once

#include "geores/manifold/algebra/random.h"

namespace geores::manifold {

template <int N>
struct Permutation {
  int to[N];

  GEORES_HOST_DEVICE constexpr int operator[](int i) const { return to[i]; }

  template <class T>
  GEORES_HOST_DEVICE constexpr Matrix<T, N> matrix() const {
    Matrix<T, N> result{};
    for (int i = 0; i < N; ++i) result(i, to[i]) = T(1);
    return result;
  }
};

GEORES_HOST_DEVICE constexpr int factorial(int n) {
  int product = 1;
  for (int k = 2; k <= n; ++k) product *= k;
  return product;
}

template <int N>
GEORES_HOST_DEVICE constexpr Permutation<N> identity_permutation() {
  Permutation<N> result{};
  for (int i = 0; i < N; ++i) result.to[i] = i;
  return result;
}

// Permutation number `index` of n! in lexicographic order; index 0 is the identity.
template <int N>
GEORES_HOST_DEVICE constexpr Permutation<N> nth_permutation(int index) {
  static_assert(N <= 12, "13! does not fit an int");
  Permutation<N> result = identity_permutation<N>();
  for (int i = 0; i < N; ++i) {
    const int block = factorial(N - 1 - i);
    const int chosen = i + index / block;
    index %= block;
    for (int k = chosen; k > i; --k) exchange(result.to[k], result.to[k - 1]);
  }
  return result;
}

// All n! permutations in lexicographic order, computed when asked for, not stored.
template <int N>
struct AllPermutations {
  static constexpr int count = factorial(N);

  GEORES_HOST_DEVICE constexpr Permutation<N> operator[](int index) const {
    return nth_permutation<N>(index);
  }
};

// JPmHC's six permutations: the identity, the transpositions (0 1) and (n−2 n−1), the cyclic shifts
// by +1 and −1, and one drawn from the seed (Fisher–Yates) until it is none of these. The paper does not
// exclude repetitions: at n = 4 a fifth of the draws repeat one of the five. For n ≤ 2 some coincide, as
// there are fewer than six.
template <int N>
struct JpmhcPermutations {
  static constexpr int count = 6;
  Permutation<N> item[count];

  GEORES_HOST_DEVICE constexpr explicit JpmhcPermutations(unsigned long long seed) : item{} {
    for (auto& permutation : item) permutation = identity_permutation<N>();
    if (N > 1) {
      exchange(item[1].to[0], item[1].to[N > 1 ? 1 : 0]);
      exchange(item[2].to[N > 1 ? N - 2 : 0], item[2].to[N - 1]);
    }
    SplitMix64 random(seed);
    for (int i = 0; i < N; ++i) {
      item[3].to[i] = (i + 1) % N;
      item[4].to[i] = (i + N - 1) % N;
    }
    do
      for (int i = N - 1; i > 0; --i) exchange(item[5].to[i], item[5].to[random.below(i + 1)]);
    while (N > 2 && repeats_one());
  }

  // The sixth is one of the first five.
  GEORES_HOST_DEVICE constexpr bool repeats_one() const {
    for (int m = 0; m < 5; ++m) {
      bool same = true;
      for (int i = 0; i < N; ++i) same = same && item[m].to[i] == item[5].to[i];
      if (same) return true;
    }
    return false;
  }

  GEORES_HOST_DEVICE constexpr const Permutation<N>& operator[](int index) const {
    return item[index];
  }
};

namespace detail {

template <class T>
struct SoftmaxScale {
  T largest, sum;
};

template <class T>
GEORES_HOST_DEVICE SoftmaxScale<T> softmax_scale(const T* logits, int count) {
  T largest = logits[0];
  for (int m = 1; m < count; ++m) largest = larger(largest, logits[m]);
  T sum = 0;
  for (int m = 0; m < count; ++m) sum += exponential(logits[m] - largest);
  return {largest, sum};
}

}  // namespace detail

// `Set` is AllPermutations<N> or JpmhcPermutations<N>; logits has Set::count entries.
template <int N, class T, class Set>
GEORES_HOST_DEVICE Matrix<T, N> permutation_mixture(const T* logits, const Set& set) {
  const auto scale = detail::softmax_scale(logits, Set::count);
  Matrix<T, N> h{};
  for (int m = 0; m < Set::count; ++m) {
    const T weight = exponential(logits[m] - scale.largest) / scale.sum;
    const Permutation<N> permutation = set[m];
    for (int i = 0; i < N; ++i) h(i, permutation[i]) += weight;
  }
  return h;
}

// From S = dL/dH:  dlogits_m = w_m (⟨S, P_m⟩ − ⟨S, H⟩).
template <int N, class T, class Set>
GEORES_HOST_DEVICE void permutation_mixture_backward(const T* logits, const Set& set,
                                                     const Matrix<T, N>& cotangent, T* gradient) {
  const auto scale = detail::softmax_scale(logits, Set::count);
  const T mean = inner(cotangent, permutation_mixture<N>(logits, set));
  for (int m = 0; m < Set::count; ++m) {
    const T weight = exponential(logits[m] - scale.largest) / scale.sum;
    const Permutation<N> permutation = set[m];
    T along = 0;
    for (int i = 0; i < N; ++i) along += cotangent(i, permutation[i]);
    gradient[m] = weight * (along - mean);
  }
}

}  // namespace geores::manifold
