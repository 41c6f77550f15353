// Where public code of language models keeps what our parameters hold: nanoGPT (lm_gpt), the
// modules hc, mhc and mhc_lite of the public mHC-lite code (lm_hc, lm_mhc, lm_mhc_lite), and
// DeepSeek-V4's hyper-connections. That code packs several maps into one tensor and stores the
// transpose of H_res, so a parameter of ours is a part of a tensor of theirs: a slice, a transpose or
// a permutation, the same for values and for gradients.
#pragma once

#include <functional>
#include <string>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct PublicTensor {
  std::string tensor;
  std::function<Tensor(const Tensor&)> part;
};

// "lm_mhc" -> "mhc". Fails with the nearest name if `kind` is none of them.
std::string connection_of_language_kind(const std::string& kind);

// Of a parameter of our Transformer: "blocks.1.mlp_residual.res.bias", `streams` in the model.
PublicTensor public_tensor(const std::string& kind, const std::string& parameter, int64_t streams);

// DeepSeek-V4: of a parameter of one connection ("res.weight") in {fn, base, scale}, and of the head
// ("weights.bias") in {hc_fn, hc_base, hc_scale}.
PublicTensor v4_tensor(const std::string& parameter, int64_t streams);
PublicTensor v4_head_tensor(const std::string& parameter);

}  // namespace geores
