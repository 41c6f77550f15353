// From many predictions of one grid to an answer, and two numbers that are both called pass@k.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "geores/puzzles/grid.h"

namespace geores::puzzles {

struct Prediction {
  Grid grid;
  double confidence = 0;  // σ(q_halt)
};

struct Candidate {
  Grid grid;
  int64_t votes = 0;
  double mean_confidence = 0;
};

// Equal predictions are one candidate. Most votes first, then the highest mean confidence, then
// the one that was seen first.
std::vector<Candidate> rank(std::span<const Prediction> predictions);

// Vote-ranked pass@k: is the right grid among the first k candidates?
bool in_first(std::span<const Candidate> ranking, const Grid& right, int64_t k);

// Sampled pass@k: the probability that k of N predictions, drawn without replacement, hold one of
// the c right ones: 1 − C(N − c, k) / C(N, k). k > N means k = N; N = 0 gives 0. At k = 1 it is the
// accuracy c/N.
double sampled_pass(int64_t predictions, int64_t right, int64_t k);

}  // namespace geores::puzzles
