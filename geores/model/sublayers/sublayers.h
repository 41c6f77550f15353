// The sublayers of a block, selected by the options of a model. The defaults are those of the
// papers here.
#pragma once

#include <memory>
#include <string>

#include "geores/base/config.h"
#include "geores/model/sublayers/attention.h"
#include "geores/model/sublayers/mlp.h"

namespace geores {

struct SublayerOptions {
  std::string attention = "causal";   // or "full": every position sees every other
  std::string positions = "learned";  // added to the embedding; or "rotary": in attention
  std::string mlp = "gelu";           // or "swiglu"
  std::string maps = "none";          // linear maps around each sublayer, see maps.h
  std::string maps_side = "both";     // or "before" or "after" alone
  double maps_std = 0.02;             // maps = normal
  double maps_factor = 1;             // maps = identity or fixed
  double first_start = 1;    // factor on the initial values of the sublayer's first weights
  double last_start = 1;     // and of its last weights
  int64_t branch_width = 0;  // width of the sublayers; 0: the connection's

  Fields fields();
  bool causal() const { return attention == "causal"; }
  bool rotary() const { return positions == "rotary"; }
};

// out_std: the standard deviation of the last weights, 0.02/√(2·layers) in a stack.
std::shared_ptr<Attention> make_attention(const SublayerOptions& options, int64_t width,
                                          int64_t heads, double out_std);

// Hidden width 4w for gelu; 8w/3 up to a multiple of 8 for swiglu, about as many weights.
std::shared_ptr<Mlp> make_mlp(const SublayerOptions& options, int64_t width, double out_std);

}  // namespace geores
