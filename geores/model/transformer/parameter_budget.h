// Counts a model's parameters by part, and finds the depth or width for a given number of them.
#pragma once

#include "geores/model/transformer/transformer.h"

namespace geores {

struct ParameterBudget {
  int64_t sublayers = 0, connections = 0;  // of one block: attention and MLP; their connections
  int64_t outside = 0;                     // embedding or projections, positions, last norm
  int64_t layers = 0;

  int64_t block() const { return sublayers + connections; }
  int64_t total() const { return outside + layers * block(); }
};

// All blocks of a model have the same size, so one is enough to count any depth.
ParameterBudget parameter_budget(TransformerConfig config);

// The depth (>= 1) whose total is nearest to `target`.
int64_t layers_for(const ParameterBudget& budget, int64_t target);

// The width whose total is nearest to `target` at the depth of `config`: a multiple of its heads
// and streams, so that every connection supports it.
int64_t width_for(TransformerConfig config, int64_t target);

}  // namespace geores
