// text: prepared text (geores/text/prepared.h, `geores data text`). A sequence is a window of
// `context` ids anywhere in the train ids, its target the same window one id later; windows run
// across documents. Sampling `random` draws offsets with replacement, as nanoGPT does; `epochs`
// takes every window of an epoch once (epoch_sampler.h).
#pragma once

#include "geores/data/task.h"
#include "geores/text/prepared.h"

namespace geores {

Task text_task();

// The ids of a split as a tensor (n) of int16 in the mapped file.
Tensor ids_tensor(const PreparedSplit& split);

}  // namespace geores
