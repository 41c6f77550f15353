// Inference, one token of each of B sequences at a time.
#pragma once

#include <cstdint>

#include "geores/ops/streams/pool.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// A residual connection for one token. It reuses its buffers, so a step allocates nothing. State and
// sublayer tensors are (B, width).
class TokenStep {
 public:
  virtual ~TokenStep() = default;

  // The input of the sublayer for the state x; valid until the next call.
  virtual const Tensor& read(const Tensor& x) = 0;

  // Updates the state x with the output y of the sublayer.
  virtual void write(const Tensor& y, Tensor& x) = 0;

  // Continues after a pass over whole sequences: takes the running means over the first `count`
  // positions from the memory of that pass, in the order in which forward() requested them. Without
  // running means there is nothing to do.
  virtual void continue_means(PoolMemory& /*memory*/, int64_t /*count*/) {}
};

}  // namespace geores
