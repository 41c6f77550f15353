// The inputs of generators, on a GPU: the state with its branch added, and its means and stream
// entropies over the sequence, over its past, or of the token, all in one pass.
#pragma once

#include <utility>

#include "geores/kernels/streams/streams.h"
#include "geores/ops/streams/pool.h"
#include "geores/ops/torch.h"

namespace geores::fused {

struct Summary {
  Tensor x;  // the input and its branch together
  // Pool::sequence: the sums over parts of a sequence, (B, kSummaryParts, D) and (B,
  // kSummaryParts). Otherwise means as products' factors (B, T, D), undefined where x is that
  // already, and (B·T).
  Tensor means, entropies;  // entropies are undefined if not requested
};
Summary summarize(const Tensor& input, const Tensor& branch, int64_t n, Pool pool, bool entropy);

// The gradients of the input and of its branch, which has this type (Undefined: no branch), from
// those of the means, of the entropies (undefined: none) and of x (undefined: none). Pool::sequence
// takes the gradients of the whole sequence's means: (B, D) and (B).
std::pair<Tensor, Tensor> summarize_backward(const Tensor& x, torch::ScalarType branch, int64_t n,
                                             Pool pool, const Tensor& dmeans,
                                             const Tensor& dentropies, const Tensor& skip);

// For a summary without entropies, which does not depend on the number of streams.
inline constexpr int64_t kAnyStreams = 4;

}  // namespace geores::fused
