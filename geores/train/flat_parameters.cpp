#include "geores/train/flat_parameters.h"

#include <torch/version.h>

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
    views_.push_back(gradients_.slice(0, begin, end).view(parameter.sizes()));
    parameter.mutable_grad() = views_.back();
    begin = end;
  }
  parameters_ = std::move(parameters);
}

void FlatParameters::begin_gradients() {
  gradients_.zero_();
  if (!gradients_.is_cuda()) return;
  for (const auto& parameter : parameters_) parameter.mutable_grad() = Tensor();
}

void FlatParameters::finish_gradients() {
  if (!gradients_.is_cuda()) return;
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> to, from;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& gradient = parameters_[i].grad();
    if (gradient.defined() && gradient.data_ptr() != views_[i].data_ptr()) {
      to.push_back(views_[i]);
      from.push_back(gradient);
    }
    parameters_[i].mutable_grad() = views_[i];
  }
  if (to.empty()) return;
#if TORCH_VERSION_MAJOR >= 2
  at::_foreach_copy_(to, from);
#else
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
#endif
}

}  // namespace geores
