// NumPy's current generator, draw for draw, limited to the functions needed here: the numbers of
// numpy.random.default_rng(seed).
//   NumpyGenerator random(42);
//   random.choice(8, 5)   ->  3 6 5 0 7       default_rng(42).choice(8, 5, replace=False)
// The engine is PCG64 (XSL-RR 128/64, O'Neill 2014) started by NumPy's SeedSequence. 64-bit words
// are used as two 32-bit words, the lower one first; bounded numbers by Lemire's method (2019).
// choice() is Floyd's sampling followed by a shuffle, which NumPy uses for up to 10,000 values.
// NumPy's older generator, RandomState, is numpy_random.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace geores {

class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint32_t seed);

  uint64_t word();  // 64 random bits

  // 0 … last; a range of one value draws nothing.
  uint32_t up_to(uint32_t last);

  // `count` different values of 0 … population − 1 in random order. population ≤ 10,000.
  std::vector<int64_t> choice(int64_t population, int64_t count);

 private:
  __extension__ using Wide = unsigned __int128;

  void step();
  uint32_t half_word();

  Wide state_ = 0, increment_;
  std::optional<uint32_t> waiting_;  // the upper half of the last word
};

}  // namespace geores
