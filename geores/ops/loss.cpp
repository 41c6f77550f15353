#include "geores/ops/loss.h"

#include "geores/base/error.h"
#include "geores/kernels/loss.h"
#include "geores/ops/fused.h"

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

class DeviceSquaredError : public torch::autograd::Function<DeviceSquaredError> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& prediction, const Tensor& target) {
    const auto x = prediction.contiguous(), y = target.contiguous();
    context->save_for_backward({x, y});
    const auto partial = torch::empty({kernels::kErrorSums}, x.options().dtype(torch::kFloat64));
    auto loss = torch::empty({}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::Stream stream) {
      kernels::squared_error_forward<T>(stream, values<T>(x), values<T>(y), x.numel(),
                                        values<double>(partial), values<T>(loss));
    });
    return loss;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &y = saved[1];
    auto dx = torch::empty_like(x);
    on_gpu(x, [&]<class T>(T, kernels::Stream stream) {
      kernels::squared_error_backward<T>(stream, values<T>(x), values<T>(y),
                                         values<T>(gradients[0]), values<T>(dx), x.numel());
    });
    return {dx, Tensor()};
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
    if (runs_fused(prediction)) return FusedSquaredError::apply(prediction, target);
    if (runs_on_gpu(prediction) && target.is_cuda() && prediction.numel() > 0)
      return DeviceSquaredError::apply(prediction, target);
  }
  return torch::mse_loss(prediction, target);
}

Tensor mean_cross_entropy(const Tensor& logits, const Tensor& targets) {
  const auto classes = logits.size(-1);
  require(logits.numel() == targets.numel() * classes, "cross_entropy",
          "{} targets do not fit {} logits of {} classes", targets.numel(), logits.numel(),
          classes);
  if (runs_fused(logits) && logits.numel() > 0) {
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
