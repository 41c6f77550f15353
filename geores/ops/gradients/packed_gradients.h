// Gradients of parameters that an operation on a GPU packs into one matrix, so that one product
// serves all of them. The backward pass unpacks the gradient of the packed matrix to the
// parameters, on the side stream together with the other weight gradients.
#pragma once

#include <algorithm>
#include <vector>

#include "geores/kernels/dense/weight_gradient.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/gradients/weight_gradients.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/torch.h"

namespace geores::fused {

// The parameters of an operation, kept from its forward to its backward pass.
struct KeptParameters {
  std::vector<Tensor> values;  // listed by the `tensors` of saved_state.h
  std::vector<Tensor> slots;   // slots of their gradients; undefined: autograd carries the gradient

  // Called in the forward pass.
  static KeptParameters of(at::TensorList parameters) {
    KeptParameters kept{.values = parameters.vec(), .slots = {}};
    for (const auto& parameter : parameters) kept.slots.push_back(gradient_slot(parameter));
    return kept;
  }
};

// Called in the backward pass: parameter_sum() of each parameter.
struct ParameterSums {
  std::vector<Tensor> sums, gradients;

  explicit ParameterSums(const KeptParameters& parameters) {
    for (size_t i = 0; i < parameters.values.size(); ++i) {
      const auto [sum, gradient] = parameter_sum(parameters.values[i], parameters.slots[i]);
      sums.push_back(sum);
      gradients.push_back(gradient);
    }
  }

  // Whether all parameters have slots, so that autograd carries no gradient.
  bool all_have_slots() const {
    return std::none_of(gradients.begin(), gradients.end(),
                        [](const Tensor& gradient) { return gradient.defined(); });
  }
};

// The gradient of a packed matrix, kept from the forward to the backward pass.
struct PackedGradient {
  c10::intrusive_ptr<WeightGradients> taker;  // null: the backward pass multiplies immediately
  Tensor zeros;  // the sum's initial zeros; undefined: the pool is exhausted

  // Called in the forward pass, for a matrix of this shape whose products have factors of type
  // `factors`; the parameters have the type of `like`.
  static PackedGradient of(at::IntArrayRef shape, torch::ScalarType factors, const Tensor& like) {
    // A large product does not run on the side stream.
    if (factors != torch::kBFloat16 || !kernels::fits_weight_gradient(shape[0], shape[1]))
      return {};
    return {weight_gradients(), take_zeros(shape, like)};
  }

  // Called in the backward pass: unpack(cuda_stream, dyᵀ x in `type`) adds to the parameters' sums.
  // It runs on the side stream if all these sums are slots, because autograd does not wait for it.
  template <class Unpack>
  void add(const Tensor& dy, const Tensor& x, torch::ScalarType type, bool all_have_slots,
           const Unpack& unpack) const {
    if (taker && all_have_slots && WeightGradients::fit(dy, x)) {
      const auto sum =
          zeros.defined() ? zeros : torch::zeros({dy.size(1), x.size(1)}, dy.options().dtype(type));
      taker->add(dy, x, sum);
      taker->then([unpack, sum](kernels::CudaStream cuda_stream) { unpack(cuda_stream, sum); }, {});
      return;
    }
    const auto product = multiply(dy.t(), x, type);
    if constexpr (kernels::kHasCuda) unpack(current_cuda_stream(), product);
  }
};

}  // namespace geores::fused
