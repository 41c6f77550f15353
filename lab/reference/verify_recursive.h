// Holds the recursive model against a float64 dump of TRM's public code (arXiv:2510.04871) with the
// mixers of EΔ's. The metadata has `kind` trm_*, and `config` with that code's keys. The tensors:
//   param/*, buffer/*                 weights, initial states, puzzle table
//   batch/*                           what is offered at each of A steps with fixed weights
//   out/*                             logits, q, losses, states and metrics of these steps
//   grad/*                            of the loss of step `grad_step`, divided by the batch
//   eval/*                            q_halt of all steps and the last logits in evaluation mode
//   train/*                           five optimiser steps from the same weights
//   after/*, ema/*                    weights, table and average after them
#pragma once

#include "lab/reference/dump.h"

namespace geores {

bool is_recursive_kind(const std::string& kind);

Verification verify_recursive(Dump& dump);

}  // namespace geores
