#include "geores/train/flat_parameters.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {

FlatParameters::FlatParameters(torch::nn::Module& module, const std::vector<Tensor>& left_out) {
  std::vector<Tensor> parameters;
  for (const auto& parameter : module.parameters())
    if (std::none_of(left_out.begin(), left_out.end(),
                     [&](const Tensor& other) { return other.is_same(parameter); }))
      parameters.push_back(parameter);
  require(!parameters.empty(), "flat_parameters", "the module has no parameters to train");
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const Tensor& parameter) { return parameter.dim() >= 2; });

  std::vector<Tensor> flat;
  for (const auto& parameter : parameters) {
    flat.push_back(parameter.detach().flatten());
    if (parameter.dim() >= 2) decayed_ += parameter.numel();
  }
  values_ = torch::cat(flat);
  gradients_ = torch::zeros_like(values_);

  int64_t begin = 0;
  for (auto& parameter : parameters) {
    const auto end = begin + parameter.numel();
    parameter.set_data(values_.slice(0, begin, end).view(parameter.sizes()));
    parameter.mutable_grad() = gradients_.slice(0, begin, end).view(parameter.sizes());
    begin = end;
  }
}

}  // namespace geores
