#include "geores/ops/training/loss.h"

#include "geores/base/error.h"
#include "geores/kernels/training/loss.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/training/scalar.h"

namespace geores {
namespace {

using namespace fused;

struct PredictionAndTarget {
  Tensor x, y;

  template <class Self, class F>
  static void tensors(Self& s, F&& f) {
    f(s.x), f(s.y);
  }
};

class FusedSquaredError : public torch::autograd::Function<FusedSquaredError> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& prediction, const Tensor& target) {
    const auto x = prediction.contiguous(), y = target.contiguous();
    save(context, PredictionAndTarget{x, y});
    Tensor loss;
    for_type_of(x, [&]<class T>(T) {
      loss = scalar_of<T>(kernels::squared_error_forward(values<T>(x), values<T>(y), x.numel()),
                          x.options());
    });
    return loss;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<PredictionAndTarget>(context);
    auto dx = torch::empty_like(s.x);
    for_type_of(s.x, [&]<class T>(T) {
      kernels::squared_error_backward<T>(values<T>(s.x), values<T>(s.y), gradients[0].item<T>(),
                                         values<T>(dx), s.x.numel());
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
    save(context, PredictionAndTarget{x, y});
    return device_squared_error(x, {}, y);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<PredictionAndTarget>(context);
    auto dx = torch::empty_like(s.x);
    on_gpu(s.x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::squared_error_backward<T>(stream, prediction_of<T>(s.x, {}), values<T>(s.y),
                                         values<T>(gradients[0]), values<T>(dx));
    });
    return {dx, Tensor()};
  }
};

// The error of x Wᵀ + bias, in bfloat16 except for sums and bias.
class HalfLinearError : public torch::autograd::Function<HalfLinearError> {
  struct Kept {
    Tensor in, w, product, bias, y;
    WeightGradient weight;
    Tensor bias_slot;
    torch::ScalarType x_type;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.in), f(s.w), f(s.product), f(s.bias), f(s.y);
    }
  };

 public:
  static bool fits(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& target) {
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return bias.defined() && bias.scalar_type() == torch::kFloat32 &&
           target.scalar_type() == torch::kFloat32 && on_gpu(target) &&
           target.sizes() == at::IntArrayRef(shape) && target.numel() > 0 &&
           bias.numel() <= kernels::kMostErrorColumns && !needs_gradient(target);
  }

  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& biases, const Tensor& target) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous(), w = for_product(weight);
    const auto bias = biases.contiguous(), y = target.contiguous();
    const auto product = multiply(in, w.t(), torch::kFloat32);
    save(context, Kept{.in = in,
                       .w = w,
                       .product = product,
                       .bias = bias,
                       .y = y,
                       .weight = WeightGradient::of(weight),
                       .bias_slot = gradient_slot(bias),
                       .x_type = x.scalar_type()});
    return device_squared_error(product, bias, y);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dbias = parameter_sum(s.bias, s.bias_slot);
    const auto half = torch::empty(s.product.sizes(), s.w.options());
    if constexpr (kernels::kHasCuda)
      kernels::squared_error_backward(
          current_cuda_stream(), prediction_of<float>(s.product, s.bias), values<float>(s.y),
          values<float>(gradients[0]), values<kernels::BFloat16>(half), values<float>(dbias.sum));
    auto shape = s.y.sizes().vec();
    shape.back() = s.w.size(1);
    return {multiply(half, s.w, s.x_type).view(shape), s.weight.from(half, s.in, torch::kFloat32),
            dbias.gradient, Tensor()};
  }
};

class FusedCrossEntropy : public torch::autograd::Function<FusedCrossEntropy> {
  struct Kept {
    Tensor logits, ids, log_sum;
    double count;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.logits), f(s.ids), f(s.log_sum);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& targets) {
    const auto logits = input.contiguous(), ids = targets.contiguous();
    auto log_sum = torch::empty({ids.numel()}, logits.options());
    Tensor loss;
    double count = 0;
    for_type_of(logits, [&]<class T>(T) {
      const auto result =
          kernels::cross_entropy_forward(values<T>(logits), ids.data_ptr<int64_t>(),
                                         values<T>(log_sum), ids.numel(), logits.size(-1));
      loss = scalar_of<T>(result.mean, logits.options());
      count = static_cast<double>(result.count);
    });
    save(context, Kept{.logits = logits, .ids = ids, .log_sum = log_sum, .count = count});
    return loss;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    auto dlogits = torch::empty_like(s.logits);
    for_type_of(s.logits, [&]<class T>(T) {
      kernels::cross_entropy_backward<T>(values<T>(s.logits), s.ids.data_ptr<int64_t>(),
                                         values<T>(s.log_sum),
                                         T(gradients[0].item<double>() / s.count),
                                         values<T>(dlogits), s.ids.numel(), s.logits.size(-1));
    });
    return {dlogits, Tensor()};
  }
};

}  // namespace

Tensor mean_squared_error(const Tensor& prediction, const Tensor& target) {
  if (!KernelChoice("squared_error", prediction)
           .need(prediction.sizes() == target.sizes() &&
                     prediction.scalar_type() == target.scalar_type(),
                 "a target of the prediction's shape and type")
           .need(!needs_gradient(target), "a target without gradient")
           .need_on_gpu(on_gpu(target) && prediction.numel() > 0, "values on the GPU")
           .runs())
    return torch::mse_loss(prediction, target);
  return on_gpu(prediction) ? DeviceSquaredError::apply(prediction, target)
                            : FusedSquaredError::apply(prediction, target);
}

Tensor normalized_linear_error(const State& state, const NormSpec& norm, const Tensor& weight,
                               const Tensor& bias, const Tensor& target) {
  if (KernelChoice::half("normalized_linear_error", state.x)
          .need(runs_cuda_kernel(state.x), "float32 values")
          .need(norm.layer, "a LayerNorm")
          .need(HalfLinearError::fits(state.x, weight, bias, target),
                "a bias, and float32 targets of few columns")
          .runs())
    return HalfLinearError::apply(layer_norm_and_skip(state, norm.weight, norm.bias).normalized,
                                  weight, bias, target);
  return mean_squared_error(normalized_linear(state, norm, weight, bias).projected, target);
}

Tensor mean_cross_entropy(const Tensor& logits, const Tensor& targets) {
  const auto classes = logits.size(-1);
  require(logits.numel() == targets.numel() * classes, "cross_entropy",
          "{} targets do not fit {} logits of {} classes", targets.numel(), logits.numel(),
          classes);
  if (KernelChoice("cross_entropy", logits)
          .need(!on_gpu(logits), "a CPU")
          .need(logits.numel() > 0, "at least one value")
          .runs()) {
    // The composed form checks each target as well.
    require(targets.min().item<int64_t>() >= -1 && targets.max().item<int64_t>() < classes,
            "cross_entropy", "targets must be in -1..{}", classes - 1);
    return FusedCrossEntropy::apply(logits, targets);
  }
  return at::cross_entropy_loss(logits.reshape({-1, classes}), targets.flatten(), {},
                                at::Reduction::Mean, -1);
}

}  // namespace geores
