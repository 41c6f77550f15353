#include "geores/ops/gradients/step_parameters.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/on_gpu.h"

namespace geores {
namespace {

// A tensor with its own version counter: an addition to one piece must not invalidate the others,
// which operations keep for their backward passes.
Tensor piece(const Tensor& flat, int64_t begin, at::IntArrayRef shape) {
  return flat.slice(0, begin, begin + c10::multiply_integers(shape)).view(shape).variable_data();
}

}  // namespace

StepParameters::StepParameters(const std::vector<Tensor>& parameters, const Tensor& gradients)
    : parameters_(parameters), gradients_(gradients) {
  int64_t begin = 0;
  for (const auto& parameter : parameters) {
    parts_[parameter.unsafeGetTensorImpl()] = {begin, false};
    begin += parameter.numel();
  }
  require(begin == gradients.numel(), "step_parameters", "{} values have {} gradients", begin,
          gradients.numel());
  if (on_gpu(gradients)) weight_gradients_ = c10::make_intrusive<WeightGradients>();
}

bool StepParameters::has_hook(const Tensor& parameter) {
  if (!torch::autograd::impl::hooks(parameter).empty()) return true;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  return accumulator && !accumulator->post_hooks().empty();
}

const StepParameters::Part* StepParameters::find(const Tensor& x, int64_t& begin) const {
  if (!x.defined() || !x.is_contiguous()) return nullptr;
  if (const auto found = parts_.find(x.unsafeGetTensorImpl()); found != parts_.end()) {
    begin = found->second.begin;
    return &found->second;
  }
  if (!x.is_view()) return nullptr;
  const auto base = x._base();
  const auto found = parts_.find(base.unsafeGetTensorImpl());
  if (found == parts_.end() || x.scalar_type() != base.scalar_type()) return nullptr;
  begin = found->second.begin + x.storage_offset() - base.storage_offset();
  return &found->second;
}

Tensor StepParameters::product_copy(const Tensor& x) const {
  int64_t begin = 0;
  if (!product_values_.defined() || find(x, begin) == nullptr) return {};
  return product_values_.slice(0, begin, begin + x.numel()).view(x.sizes());
}

void StepParameters::begin_pass() {
  require(!pass_, "step_parameters", "a pass has begun already");
  pass_ = true;
  for (const auto& parameter : parameters_)
    parts_[parameter.unsafeGetTensorImpl()].hooked = has_hook(parameter);
}

void StepParameters::end_pass() {
  if (weight_gradients_) weight_gradients_->finish();
  drop_pass();
}

void StepParameters::drop_pass() noexcept {
  if (weight_gradients_) weight_gradients_->drop();
  made_.clear();
  zeros_ = Tensor();
  zeros_used_ = 0;
  pass_ = false;
}

Tensor StepParameters::gradient_slot(const Tensor& x) const {
  if (!in_pass() || !x.defined()) return {};
  for (const auto& [tensor, slot] : made_)
    if (tensor._unsafe_get_target() == x.unsafeGetTensorImpl() && !tensor.expired()) return slot;
  int64_t begin = 0;
  const auto* part = find(x, begin);
  if (part == nullptr || part->hooked || x.scalar_type() != gradients_.scalar_type()) return {};
  return piece(gradients_, begin, x.sizes());
}

Tensor StepParameters::make_gradient_slot(const Tensor& x) {
  if (!in_pass() || x.device() != gradients_.device() || !x.is_contiguous()) return {};
  const auto slot = take_zeros(x.sizes(), gradients_);
  if (slot.defined()) made_.push_back({WeakTensor(x.getIntrusivePtr()), slot});
  return slot;
}

// Gradients of packed or folded parameters usually need no more memory than the parameters' own. A
// model that uses a weight many times may exhaust it; autograd then carries the gradient.
Tensor StepParameters::take_zeros(at::IntArrayRef shape, const Tensor& like) {
  if (!in_pass() || like.scalar_type() != gradients_.scalar_type() ||
      like.device() != gradients_.device())
    return {};
  const auto begin = (zeros_used_ + 3) / 4 * 4;  // aligned for kernels that add four values at once
  const auto end = begin + c10::multiply_integers(shape);
  if (end > gradients_.numel()) return {};
  if (!zeros_.defined()) zeros_ = torch::zeros_like(gradients_);
  zeros_used_ = end;
  return piece(zeros_, begin, shape);
}

c10::intrusive_ptr<WeightGradients> StepParameters::weight_gradients() const {
  return in_pass() ? weight_gradients_ : c10::intrusive_ptr<WeightGradients>();
}

Tensor gradient_slot(const Tensor& x) {
  const auto* parameters = execution().parameters;
  return parameters != nullptr ? parameters->gradient_slot(x) : Tensor();
}

Tensor make_gradient_slot(const Tensor& x) {
  auto* parameters = execution().parameters;
  return parameters != nullptr ? parameters->make_gradient_slot(x) : Tensor();
}

Tensor take_zeros(at::IntArrayRef shape, const Tensor& like) {
  auto* parameters = execution().parameters;
  if (parameters == nullptr) return {};
  return parameters->take_zeros(shape, like);
}

c10::intrusive_ptr<WeightGradients> weight_gradients() {
  const auto* parameters = execution().parameters;
  return parameters != nullptr ? parameters->weight_gradients()
                               : c10::intrusive_ptr<WeightGradients>();
}

ParameterSum parameter_sum(const Tensor& parameter, const Tensor& slot) {
  if (slot.defined()) return {.sum = slot, .gradient = {}};
  if (!parameter.defined()) return {};
  const auto zeros = torch::zeros_like(parameter, torch::MemoryFormat::Contiguous);
  return {.sum = zeros, .gradient = zeros};
}

}  // namespace geores
