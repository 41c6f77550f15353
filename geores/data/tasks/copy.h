// copy: 9000 + 1000 sequences of 64 tokens, one sequence of draws for both. A sequence is
// a_1 .. a_m a_1 .. a_m with m = length / 2, each a_i = randint(0, vocabulary). x is all of it but
// the last token, y all of it but the first, with −1 (no loss) for the m − 1 targets a_2 .. a_m
// that cannot be predicted. So position m, where the input is a_m, is the first to be scored, and a_1
// is its target.
#pragma once

#include "geores/data/task.h"

namespace geores {

Task copy_task();

}  // namespace geores
