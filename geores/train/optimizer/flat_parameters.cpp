#include "geores/train/optimizer/flat_parameters.h"

#include <algorithm>
#include <utility>

#include "geores/base/error.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

using Named = std::vector<std::pair<std::string, Tensor>>;

bool is_in(const std::vector<Tensor>& list, const Tensor& tensor) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Tensor& other) { return other.is_same(tensor); });
}

bool decays(const Tensor& parameter, const std::vector<Tensor>& exceptions) {
  return (parameter.dim() >= 2) != is_in(exceptions, parameter);
}

// The parameters that need gradients, or those that do not; parameters with weight decay come
// first.
Named named_parameters(torch::nn::Module& module, const std::vector<Tensor>& left_out,
                       const std::vector<Tensor>& decay_exceptions, bool trained) {
  Named all;
  for (const auto& parameter : module.named_parameters()) {
    const auto& tensor = parameter.value();
    if (!is_in(left_out, tensor) && tensor.requires_grad() == trained)
      all.emplace_back(parameter.key(), tensor);
  }
  std::stable_partition(all.begin(), all.end(), [&](const auto& parameter) {
    return decays(parameter.second, decay_exceptions);
  });
  return all;
}

std::vector<Tensor> tensors_of(const Named& named) {
  require(!named.empty(), "flat_parameters", "the module has no parameters to train");
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : named) all.push_back(tensor);
  return all;
}

// Moves the parameters into one buffer, in this order.
Tensor flatten(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> flat;
  for (const auto& parameter : parameters) flat.push_back(parameter.detach().flatten());
  auto values = torch::cat(flat);
  int64_t begin = 0;
  for (auto parameter : parameters) {
    const auto end = begin + parameter.numel();
    parameter.set_data(values.slice(0, begin, end).view(parameter.sizes()));
    begin = end;
  }
  return values;
}

}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& module, const std::vector<Tensor>& left_out,
                               const std::vector<Tensor>& decay_exceptions, int64_t spare)
    : FlatParameters(named_parameters(module, left_out, decay_exceptions, true),
                     named_parameters(module, left_out, decay_exceptions, false), decay_exceptions,
                     spare) {}

FlatParameters::FlatParameters(Named trained, Named frozen,
                               const std::vector<Tensor>& decay_exceptions, int64_t spare)
    : trained_(std::move(trained)),
      frozen_(std::move(frozen)),
      parameters_(tensors_of(trained_)),
      values_(flatten(parameters_)),
      gradients_and_spare_(torch::zeros({values_.numel() + spare}, values_.options())),
      gradients_(gradients_and_spare_.slice(0, 0, values_.numel())),
      step_(parameters_, gradients_) {
  int64_t begin = 0;
  for (const auto& parameter : parameters_) {
    const auto end = begin + parameter.numel();
    views_.push_back(gradients_.slice(0, begin, end).view(parameter.sizes()));
    parameter.mutable_grad() = views_.back();
    if (decays(parameter, decay_exceptions)) decayed_ = end;
    begin = end;
  }
}

void FlatParameters::require_as_made() const {
  for (const auto& [name, parameter] : trained_)
    require(parameter.requires_grad(), "train",
            "parameter '{}' was frozen after the optimiser was made; freeze it before", name);
  for (const auto& [name, parameter] : frozen_)
    require(!parameter.requires_grad(), "train",
            "parameter '{}' was frozen when the optimiser was made; make a new one to train it",
            name);
}

void FlatParameters::begin_gradients() {
  require_as_made();
  refresh();
  if (!gradients_clear_) gradients_.zero_();
  gradients_clear_ = false;
  // A bfloat16 copy that is not kept up to date is made for this step alone.
  const auto type = product_type(values_.scalar_type());
  const bool half = on_gpu(values_) && type != values_.scalar_type();
  step_.set_product_values(product_values_.defined() ? product_values_
                           : half                    ? values_.to(type)
                                                     : Tensor());
  if (!on_gpu(gradients_)) return;
  for (const auto& parameter : parameters_) parameter.mutable_grad() = Tensor();
}

// On a GPU kernels have accumulated into the gradients themselves; the tensors that autograd
// returned are added in one call, because adding to each view would take a hundred kernels.
void FlatParameters::finish_gradients() {
  if (!product_values_.defined()) step_.set_product_values({});
  if (!on_gpu(gradients_)) return;
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

void FlatParameters::collect_gradients(int64_t passes, const std::function<void(int64_t)>& pass) {
  begin_gradients();
  auto collecting = execution();
  collecting.parameters = &step_;
  const ExecutionScope scope(collecting);
  for (int64_t i = 0; i < passes; ++i) {
    step_.begin_pass();
    try {
      pass(i);
      step_.end_pass();
    } catch (...) {
      step_.drop_pass();
      throw;
    }
  }
  finish_gradients();
}

void FlatParameters::keep_ready() {
  const auto type = values_.scalar_type();
  if (!product_values_.defined() && product_type(type) != type)
    product_values_ = torch::empty_like(values_, values_.options().dtype(product_type(type)));
  ready_ = true;
  copied_versions_ = -1;
  gradients_clear_ = false;
  refresh();
}

int64_t FlatParameters::versions() const {
  auto sum = static_cast<int64_t>(values_._version());
  for (const auto& parameter : parameters_) sum += static_cast<int64_t>(parameter._version());
  return sum;
}

void FlatParameters::refresh() {
  if (!ready_) return;
  const torch::NoGradGuard no_grad;
  if (!gradients_clear_) gradients_.zero_();
  gradients_clear_ = true;
  const auto now = versions();
  if (copied_versions_ == now) return;
  if (product_values_.defined()) product_values_.copy_(values_);
  copied_versions_ = now;
}

void FlatParameters::optimizer_wrote(bool left_ready) {
  gradients_clear_ = left_ready;
  copied_versions_ = left_ready ? versions() : -1;
}

void FlatParameters::before_replay() {
  require_as_made();
  for (const auto& [name, parameter] : trained_)
    require(!StepParameters::has_hook(parameter), "train",
            "parameter '{}' has a hook, which a recorded step cannot call; train without recording",
            name);
  refresh();
}

}  // namespace geores
