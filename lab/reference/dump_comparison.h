// Holding the parameters, outputs and training steps of a model against a dump.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "geores/base/formats/safetensors.h"
#include "geores/ops/torch.h"
#include "geores/train/training_step.h"
#include "lab/reference/dump.h"
#include "lab/reference/public_names.h"

namespace geores {

using torch::Tensor;

// A parameter of ours and where the dump has it: `part` takes it out of `tensor` (a slice, a
// transpose, a permutation), so the same function serves values and gradients.
struct DumpedParameter {
  std::string tensor;
  Tensor parameter;
  std::function<Tensor(const Tensor&)> part;
};
using DumpedParameters = std::vector<DumpedParameter>;

// param/* into our parameters.
void load_parameters(Dump& dump, const DumpedParameters& parameters);

// `folder`/* against what `ours` gives for each parameter.
GroupError compare_parameters(Dump& dump, const DumpedParameters& parameters,
                              const std::string& folder, double limit,
                              const std::function<Tensor(const Tensor&)>& ours);

GroupError compare_tensor(Dump& dump, const std::string& tensor, const Tensor& ours);

// train/x and train/y, batches of shape `batch`, through AdamW; adds the groups of loss (train/`loss`),
// gradient norm and weights afterwards.
void verify_training(Dump& dump, TrainingStep& training, const DumpedParameters& parameters,
                     const std::string& loss, const std::vector<int64_t>& batch, Dtype dtype,
                     Verification& result);

// One function for each family of dumps.
Verification verify_vectors(Dump& dump, const std::string& kind);  // verify.cpp
Verification verify_v4(Dump& dump, const std::string& kind);       // verify_v4.cpp

// verify_language.cpp. The settings of the comparison that a dump of a language model lacks; a
// test gives wrong values to show that each is noticed.
struct LanguageSettings {
  nlohmann::json options = nlohmann::json::object();  // of the connection, over those of the kind
  OptimizerOptions optimizer = {};
  std::function<PublicTensor(const std::string& kind, const std::string& parameter,
                             int64_t streams)>
      source = public_tensor;
};
Verification verify_language(Dump& dump, const std::string& kind,
                             const LanguageSettings& settings = {});

}  // namespace geores
