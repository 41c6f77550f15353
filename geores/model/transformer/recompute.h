// Gradient checkpointing: a training pass keeps the state that enters a group of blocks, drops what
// lies inside, and runs the group again in the backward pass.
//   blocks       all of a group runs twice. Groups have √(nL/(3(n + 2))) of L blocks with n streams, so
//                memory grows with the root of the number of blocks.
//   connections  sublayers run once and keep what they need; norms, mixers and the states between
//                them are computed again from the sublayers' outputs (Xie et al., arXiv:2512.24880,
//                section 4.3.2). Groups have √(nL/(n + 2)) blocks: a group keeps n streams, and n + 2
//                vectors a block exist while its backward pass runs.
// On a CPU gradients are the same bit for bit.
#pragma once

#include <memory>
#include <vector>

#include "geores/model/model.h"
#include "geores/model/transformer/block.h"

namespace geores {

// The state after all blocks. `blocks` must outlive the backward pass, which can run once.
Tensor forward_recomputed(const std::vector<std::shared_ptr<Block>>& blocks, Recompute what,
                          const Tensor& x, Trace& trace, const Dropout& dropout = {});

}  // namespace geores
