// Which sequences a batch takes: drawn with replacement, every sequence equally likely, as a pure
// function of (seed, series, step). So nothing has to be saved to resume a run, and the batches of
// training do not depend on how often one evaluates.
//   const BatchSampler sampler(seed, data.train_x.size(0));
//   sampler.indices(0, step, 64);        training
//   sampler.indices(1, step, 40 * 64);   evaluation: another series of draws
// The draws are SplitMix64 (Steele, Lea and Flood, 2014) started from a hash of the three numbers;
// a word in the incomplete last interval is drawn again, so there is no bias. A longer draw begins
// with the shorter one. Cost: a few nanoseconds per index.
#pragma once

#include <cstdint>
#include <vector>

namespace geores {

class BatchSampler {
 public:
  // sequences >= 1
  BatchSampler(uint64_t seed, int64_t sequences);

  // `count` values in [0, sequences). step >= 0, count >= 0.
  std::vector<int64_t> indices(uint64_t series, int64_t step, int64_t count) const;

 private:
  uint64_t seed_;
  uint64_t sequences_;
};

}  // namespace geores
