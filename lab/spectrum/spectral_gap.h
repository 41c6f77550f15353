// Which K permutations of n streams mix best? Exhaustive search over all K-subsets of S_n (the
// identity may be one of them): those that generate S_n, and among them the largest spectral gap
//   gap = 1 − max |λ|   over the eigenvalues of (1/K) Σ g in the regular representation, less the
//                       trivial one (the random walk on the group with steps from the set).
// JPmHC's permutation mixer draws its K permutations from such a set. Note: the streams themselves
// see only the defining representation (n x n), whose gap can be larger: for n = K = 4 the four
// cyclic shifts average to 11ᵀ/4, gap 1, though they generate only a cyclic group.
#pragma once

#include <cstdint>
#include <vector>

namespace geores::spectral {

struct GapSearch {
  std::int64_t subsets = 0;
  std::int64_t generating = 0;
  double best_gap = 0;
  std::int64_t best_count = 0;         // generating sets that reach it
  std::vector<std::vector<int>> best;  // the first of them: K permutations, i ↦ p[i]
};

// Refuses (geores::Error, with the number of subsets and the expected time) when a timed trial says
// the search would take longer than limit_seconds. The result does not depend on `threads` (0: one
// per core).
GapSearch search_spectral_gap(int streams, int generators, double limit_seconds = 60,
                              int threads = 1);

}  // namespace geores::spectral
