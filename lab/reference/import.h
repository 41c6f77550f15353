// Public weights under our names: safetensors of nanoGPT, of the public mHC-lite code, or the
// hyper-connections of a DeepSeek-V4 checkpoint. The options that follow from shapes are returned for a
// transformer; the number of attention heads does not follow from them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "geores/base/formats/safetensors.h"

namespace geores {

struct ImportedWeights {
  SafetensorsWriter weights;
  nlohmann::json options;  // connection, layers, width, streams, ...
  int64_t tensors = 0;     // how many of ours
};

// kind: lm_gpt, lm_hc, lm_mhc, lm_mhc_lite (public_names.h), v4 or v41. Tensor names may begin with "param/"
// or "_orig_mod.". A gain g of the RMSNorm before the routes (norm.gamma) is folded into the
// projections, W ← W diag(1 + g). Of v4 and v41 only hyper-connections are read: layers.*.hc_attn_fn,
// _base, _scale and hc_ffn_*, or attn_hc.fn, ... and ffn_hc.fn, ..., and the head of v4; other tensors are
// left alone. Refuses a file in which something of the model is missing or has another shape.
ImportedWeights import_weights(const Safetensors& file, const std::string& kind,
                               const std::string& where);

}  // namespace geores
