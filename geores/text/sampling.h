// Which id comes next, from the logits of a model: repetition penalty, temperature, top-k, top-p,
// softmax in float64, one uniform number.
#pragma once

#include <cstdint>
#include <span>

#include "geores/text/tokenizer.h"

namespace geores {

struct SamplingOptions {
  double temperature = 1.0;         // 0: always the most likely id
  int64_t top_k = 0;                // only the k most likely ids; 0: all
  double top_p = 1.0;               // only the smallest set of ids whose probability reaches p
  double repetition_penalty = 1.0;  // divides positive logits of ids that were there, multiplies
                                    // negative ones (Keskar et al., arXiv:1909.05858)
  int64_t seed = 1337;

  // Throws for invalid options, in one line.
  void check() const;
};

struct Chosen {
  Id id = 0;
  double log_probability = 0;  // of the id among those that could be chosen
};

// `history` are the ids so far. The uniform number is a function of (seed, sample, position) alone:
// the same on every machine, and samples do not depend on how many there are.
Chosen choose(std::span<const double> logits, std::span<const Id> history,
              const SamplingOptions& options, uint64_t sample, uint64_t position);

// In [0, 1), 53 bits.
double uniform_number(uint64_t seed, uint64_t sample, uint64_t position);

}  // namespace geores
