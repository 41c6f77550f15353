// Gradient checkpointing: keep a block's input, drop everything inside, and run the block again in
// the backward pass. Memory grows with the number of blocks instead of with what they compute; the
// forward is paid twice. On a CPU gradients are the same bit for bit.
#pragma once

#include "geores/model/transformer/block.h"

namespace geores {

Tensor forward_recomputed(const std::shared_ptr<Block>& block, const Tensor& x, Trace& trace,
                          const Dropout& dropout = {});

}  // namespace geores
