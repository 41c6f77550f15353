// A TokenStep (residual.h) with running means: it can go on where a pass over whole sequences ended.
#pragma once

#include <cstdint>

#include "geores/ops/streams/pool.h"

namespace geores {

class TokenMeans {
 public:
  virtual ~TokenMeans() = default;

  // Takes the running means over the first `count` positions from the memory of such a pass, in the
  // order in which forward() asked for them. The memory is used up.
  virtual void continue_means(PoolMemory& memory, int64_t count) = 0;
};

}  // namespace geores
