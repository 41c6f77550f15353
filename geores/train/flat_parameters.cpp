#include "geores/train/flat_parameters.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/ops/run/precision.h"

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
  if (!ready_) gradients_.zero_();
  if (!gradients_.is_cuda()) return;
  for (const auto& parameter : parameters_) parameter.mutable_grad() = Tensor();
}

void FlatParameters::finish_gradients() {
  if (!gradients_.is_cuda()) return;
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> to, from;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (const auto& gradient = parameters_[i].grad(); gradient.defined()) {
      to.push_back(views_[i]);
      from.push_back(gradient);
    }
    parameters_[i].mutable_grad() = views_[i];
  }
  if (!to.empty()) at::_foreach_add_(to, from);
}

void FlatParameters::keep_ready() {
  const auto type = values_.scalar_type();
  if (!product_values_.defined() && product_type(type) != type)
    product_values_ = torch::empty_like(values_, values_.options().dtype(product_type(type)));
  ready_ = true;
  values_changed();
}

void FlatParameters::values_changed() {
  if (!ready_) return;
  const torch::NoGradGuard no_grad;
  gradients_.zero_();
  if (product_values_.defined()) product_values_.copy_(values_);
}

}  // namespace geores
