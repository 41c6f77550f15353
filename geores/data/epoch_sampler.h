// Windows of a text by epochs: in each epoch the row of ids is cut into windows of `length` from a
// random phase, and these are taken in a random order, each once. A pure function of (seed, step),
// as BatchSampler is: the order is a keyed bijection (a Feistel network on the numbers below the next
// power of four, walked until the result is one of them), so nothing is stored.
#pragma once

#include <cstdint>
#include <vector>

namespace geores {

class EpochSampler {
 public:
  // ids > length >= 1
  EpochSampler(uint64_t seed, int64_t ids, int64_t length);

  int64_t windows() const { return windows_; }  // of an epoch

  // The offsets of the windows of this step: numbers step·count .. step·count + count − 1 of all
  // epochs one after another.
  std::vector<int64_t> offsets(int64_t step, int64_t count) const;

 private:
  int64_t offset(int64_t number) const;

  uint64_t seed_;
  int64_t length_;
  int64_t windows_;
  int64_t phases_;  // number of phases in which the windows fit
};

}  // namespace geores
