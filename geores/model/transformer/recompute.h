// Gradient checkpointing: a training pass stores the input state of a group of blocks, drops the
// states inside, and runs the group again in the backward pass.
//   blocks       all of a group runs twice. Groups have √(nL/(3(n + 2))) of L blocks with n streams, so
//                memory grows with the root of the number of blocks.
// connections    sublayers run once and keep their activations; norms, mixers and the states between
//                them are recomputed from the sublayers' outputs (Xie et al., arXiv:2512.24880,
//                section 4.3.2). Groups have √(nL/(n + 2)) blocks: a group stores n streams, and
//                n + 2 vectors a block exist during its backward pass.
// On a CPU the gradients are bit for bit the same.
#pragma once

#include <memory>
#include <vector>

#include "geores/model/model.h"
#include "geores/model/transformer/block.h"

namespace geores {

// The state after all blocks. `blocks` must outlive the backward pass, which can run only once.
State forward_recomputed(const std::vector<std::shared_ptr<Block>>& blocks, Recompute what,
                         const Tensor& x, Trace& trace, const Dropout& dropout = {});

}  // namespace geores
