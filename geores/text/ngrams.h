// Baselines for language models: tables of counts. Interpolated n-grams with an absolute
// discount D = 0.75 (Ney, Essen and Kneser, 1994), fitted on one row of ids and scored on another:
//   p_n(w | h) = max(c(h w) − D, 0)/c(h) + D·N(h)/c(h) · p_{n−1}(w | h without its first id)
// c counts in the fitted row, N(h) is how many different ids follow h there, and p_0 = 1/vocabulary.
// Where h was not seen, or reaches back before the first id, p_n = p_{n−1}.
#pragma once

#include <span>
#include <vector>

#include "geores/text/tokenizer.h"

namespace geores {

// Mean −ln p_n for n = 0 (uniform) .. most. Counts are kept only for histories that the scored row
// has. Cost: O(most² · ids).
std::vector<double> ngram_losses(std::span<const Id> fitted, std::span<const Id> scored,
                                 int64_t vocabulary, int most);

}  // namespace geores
