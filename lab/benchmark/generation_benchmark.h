// How fast a model continues a text, one id after another: with its cache and without, in one process
// and in turns, so that both see the same machine.
#pragma once

#include "geores/model/model.h"

namespace geores {

struct GenerationSpeed {
  double prompt = 0;  // ids a second of the prompt, which is half of the context
  double cached = 0;  // ids a second that follow it, until the context is full
  double whole = 0;   // the same without the cache: each costs a pass over all ids so far
};

// `passes` passes without the cache, spread over the second half of the context.
GenerationSpeed generation_speed(Model& model, int64_t passes);

}  // namespace geores
