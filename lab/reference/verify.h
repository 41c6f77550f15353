// Holds our models against a float64 dump of another implementation.
//
// A dump is a safetensors file. Its metadata names the model (`kind`, `config` as JSON with the
// reference's keys); its tensors are
//   param/*                weights under the reference's names
//   x, y, cotangent        inputs
//   out, mse, aux          what it computed from them
//   grad/*                 gradients of sum(out · cotangent) + aux
//   train/x, train/y       one batch per step
//   train/mse, grad_norm   what each step saw
//   after/*                weights after the steps
// Dumps of language models (kind lm_gpt, lm_hc, lm_mhc, lm_mhc_lite: nanoGPT and the public mHC-lite
// code; names in public_names.h) have ids as x and y, `loss` (cross entropy) instead of mse, no
// cotangent and no aux; grad/* is that of the loss. A dump of DeepSeek-V4's hyper-connections (kind
// mhc_v4) has outputs and gradients of two connections and the head after them, and no training; it is
// itself rounded to float32 behind the first connection's routes (verify_v4.cpp). One of V4.1's (mhc_v41)
// has any number of connections and is float64 throughout.
// A step is AdamW (0.9, 0.95), eps 1e-8, decay 0.1 by rank as the reference does, clip 1.0, loss mse + aux, learning
// rate 1e-3 after 3 warm-up steps, cosine to 1e-4 over the number of steps.
//
// Everything is computed in float64. The error of a group is the largest absolute difference over
// the group's largest magnitude.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/formats/safetensors.h"

namespace geores {

struct GroupError {
  std::string group;  // out, mse, aux, grad, train/mse, train/grad_norm, after
  double error = 0;   // NaN when either side is not finite
  double limit = 0;
  std::string worst;  // the tensor with the largest difference
  bool passed() const { return error < limit; }
};

struct Verification {
  std::string kind, connection;
  int64_t parameters = 0;
  std::vector<GroupError> groups;

  bool passed() const;
  nlohmann::json to_json() const;
};

// Throws Error when the file is not such a dump: a tensor missing, unknown, of the wrong dtype or
// shape; an unknown kind or config key.
Verification verify_dump(const Safetensors& file, const std::string& file_name);

}  // namespace geores
