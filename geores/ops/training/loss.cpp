#include "geores/ops/training/loss.h"

#include "geores/base/error.h"
#include "geores/kernels/training/loss.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

class FusedSquaredError : public torch::autograd::Function<FusedSquaredError> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& prediction, const Tensor& target) {
    const auto x = prediction.contiguous(), y = target.contiguous();
    context->save_for_backward({x, y});
    Tensor loss;
    for_type_of(x, [&]<class T>(T) {
      loss = torch::full({}, kernels::squared_error_forward(values<T>(x), values<T>(y), x.numel()),
                         x.options());
    });
    return loss;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &y = saved[1];
    auto dx = torch::empty_like(x);
    for_type_of(x, [&]<class T>(T) {
      kernels::squared_error_backward<T>(values<T>(x), values<T>(y), gradients[0].item<T>(),
                                         values<T>(dx), x.numel());
    });
    return {dx, Tensor()};
  }
};

// mean (x + bias − y)², x (..., columns), on a GPU.
template <class T>
kernels::Prediction<T> prediction_of(const Tensor& x, const Tensor& bias) {
  return {.x = values<T>(x),
          .bias = values<T>(bias),
          .rows = bias.defined() ? x.numel() / bias.numel() : x.numel(),
          .columns = bias.defined() ? bias.numel() : 1};
}

Tensor device_squared_error(const Tensor& x, const Tensor& bias, const Tensor& y) {
  const auto partial = torch::empty({kernels::kErrorSums}, x.options().dtype(torch::kFloat64));
  auto loss = torch::empty({}, x.options());
  on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
    kernels::squared_error_forward<T>(stream, prediction_of<T>(x, bias), values<T>(y),
                                      values<double>(partial), values<T>(loss));
  });
  return loss;
}

class DeviceSquaredError : public torch::autograd::Function<DeviceSquaredError> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& prediction, const Tensor& target) {
    const auto x = prediction.contiguous(), y = target.contiguous();
    context->save_for_backward({x, y});
    return device_squared_error(x, {}, y);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &y = saved[1];
    auto dx = torch::empty_like(x);
    on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::squared_error_backward<T>(stream, prediction_of<T>(x, {}), values<T>(y),
                                         values<T>(gradients[0]), values<T>(dx));
    });
    return {dx, Tensor()};
  }
};

// The error of x Wᵀ + bias, in bfloat16 but for sums and bias.
class HalfLinearError : public torch::autograd::Function<HalfLinearError> {
 public:
  static bool fits(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& target) {
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return bias.defined() && bias.scalar_type() == torch::kFloat32 &&
           target.scalar_type() == torch::kFloat32 && target.is_cuda() &&
           target.sizes() == at::IntArrayRef(shape) && target.numel() > 0 &&
           bias.numel() <= kernels::kMostErrorColumns && !needs_gradient(target);
  }

  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& biases, const Tensor& target) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous(), w = for_product(weight);
    context->saved_data["x_type"] = static_cast<int64_t>(x.scalar_type());
    const auto bias = biases.contiguous(), y = target.contiguous();
    const auto product = multiply(in, w.t(), torch::kFloat32);
    context->save_for_backward(
        {in, w, product, bias, y, gradient_place(weight), gradient_place(bias)});
    keep(context, weight_gradients());
    return device_squared_error(product, bias, y);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &w = saved[1], &product = saved[2], &bias = saved[3], &y = saved[4];
    const auto dbias = parameter_sum(bias, saved[6]);
    const auto half = torch::empty(product.sizes(), w.options());
    if constexpr (kernels::kHasCuda)
      kernels::squared_error_backward(current_cuda_stream(), prediction_of<float>(product, bias),
                                      values<float>(y), values<float>(gradients[0]),
                                      values<kernels::BFloat16>(half), values<float>(dbias.sum));
    auto shape = y.sizes().vec();
    shape.back() = w.size(1);
    const auto type = static_cast<torch::ScalarType>(context->saved_data["x_type"].toInt());
    return {multiply(half, w, type).view(shape),
            weight_gradient(context, half, in, saved[5], torch::kFloat32), dbias.gradient,
            Tensor()};
  }
};

class FusedCrossEntropy : public torch::autograd::Function<FusedCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& targets) {
    const auto logits = input.contiguous(), ids = targets.contiguous();
    auto log_sum = torch::empty({ids.numel()}, logits.options());
    Tensor loss;
    for_type_of(logits, [&]<class T>(T) {
      const auto result =
          kernels::cross_entropy_forward(values<T>(logits), ids.data_ptr<int64_t>(),
                                         values<T>(log_sum), ids.numel(), logits.size(-1));
      loss = torch::full({}, result.mean, logits.options());
      context->saved_data["count"] = result.count;
    });
    context->save_for_backward({logits, ids, log_sum});
    return loss;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &logits = saved[0], &ids = saved[1], &log_sum = saved[2];
    const auto count = static_cast<double>(context->saved_data["count"].toInt());
    auto dlogits = torch::empty_like(logits);
    for_type_of(logits, [&]<class T>(T) {
      kernels::cross_entropy_backward<T>(values<T>(logits), ids.data_ptr<int64_t>(),
                                         values<T>(log_sum), T(gradients[0].item<double>() / count),
                                         values<T>(dlogits), ids.numel(), logits.size(-1));
    });
    return {dlogits, Tensor()};
  }
};

}  // namespace

Tensor mean_squared_error(const Tensor& prediction, const Tensor& target) {
  if (prediction.sizes() == target.sizes() && prediction.scalar_type() == target.scalar_type() &&
      !needs_gradient(target)) {
    if (runs_cpu_kernel(prediction)) return FusedSquaredError::apply(prediction, target);
    if (runs_cuda_kernel(prediction) && target.is_cuda() && prediction.numel() > 0)
      return DeviceSquaredError::apply(prediction, target);
  }
  return torch::mse_loss(prediction, target);
}

Tensor normalized_linear_error(const State& state, const NormSpec& norm, const Tensor& weight,
                               const Tensor& bias, const Tensor& target) {
  if (runs_cuda_kernel(state.x) && product_type(state.x.scalar_type()) == torch::kBFloat16 &&
      norm.layer && HalfLinearError::fits(state.x, weight, bias, target))
    return HalfLinearError::apply(layer_norm_and_skip(state, norm.weight, norm.bias).normalized,
                                  weight, bias, target);
  return mean_squared_error(normalized_linear(state, norm, weight, bias).projected, target);
}

Tensor mean_cross_entropy(const Tensor& logits, const Tensor& targets) {
  const auto classes = logits.size(-1);
  require(logits.numel() == targets.numel() * classes, "cross_entropy",
          "{} targets do not fit {} logits of {} classes", targets.numel(), logits.numel(),
          classes);
  if (runs_cpu_kernel(logits) && logits.numel() > 0) {
    // The composed form checks each target as well.
    require(targets.min().item<int64_t>() >= -1 && targets.max().item<int64_t>() < classes,
            "cross_entropy", "targets must lie in -1..{}", classes - 1);
    return FusedCrossEntropy::apply(logits, targets);
  }
  return torch::nn::functional::cross_entropy(
      logits.reshape({-1, classes}), targets.flatten(),
      torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1));
}

}  // namespace geores
