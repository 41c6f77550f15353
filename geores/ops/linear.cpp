#include "geores/ops/linear.h"

#include "geores/base/error.h"
#include "geores/kernels/linear.h"
#include "geores/ops/fused.h"
#include "geores/ops/precision.h"

namespace geores {
namespace {

using namespace fused;

int64_t rows_of(const Tensor& x) { return x.size(-1) > 0 ? x.numel() / x.size(-1) : 0; }

Tensor with_last_axis(const Tensor& x, int64_t size) {
  auto shape = x.sizes().vec();
  shape.back() = size;
  return torch::empty(shape, x.options());
}

class FusedLinear : public torch::autograd::Function<FusedLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weights,
                        const OptionalTensor& bias) {
    const auto x = input.contiguous(), w = weights.contiguous(), b = contiguous(bias);
    context->save_for_backward({x, w});
    context->saved_data["bias"] = b.defined();
    auto y = with_last_axis(x, w.size(0));
    for_type_of(x, [&]<class T>(T) {
      kernels::linear_forward(values<T>(x), values<T>(w), values<T>(b), values<T>(y), rows_of(x),
                              w.size(1), w.size(0));
    });
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w = saved[1];
    const auto dy = gradients[0].contiguous();
    const auto dx = room_if(context->needs_input_grad(0), x);
    const auto dw = gradient_if(context->needs_input_grad(1), w);
    const auto db = context->saved_data["bias"].toBool() && context->needs_input_grad(2)
                        ? torch::zeros({w.size(0)}, w.options())
                        : Tensor();
    for_type_of(x, [&]<class T>(T) {
      kernels::linear_backward(values<T>(x), values<T>(w), values<T>(dy), values<T>(dx),
                               values<T>(dw), values<T>(db), rows_of(x), w.size(1), w.size(0));
    });
    return {dx, dw, db};
  }
};

class FusedPerceptron : public torch::autograd::Function<FusedPerceptron> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& up,
                        const Tensor& down, bool keep) {
    const auto x = input.contiguous(), w1 = up.contiguous(), w2 = down.contiguous();
    const auto hidden = keep ? with_last_axis(x, w1.size(0)) : Tensor();
    auto y = with_last_axis(x, w2.size(0));
    for_type_of(x, [&]<class T>(T) {
      kernels::perceptron_forward(values<T>(x), values<T>(w1), values<T>(w2), values<T>(hidden),
                                  values<T>(y), shape(x, w1, w2));
    });
    context->save_for_backward({x, w1, w2, hidden});
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w1 = saved[1], &w2 = saved[2], &hidden = saved[3];
    const auto dy = gradients[0].contiguous();
    const auto dx = room_if(context->needs_input_grad(0), x);
    const auto dw1 = gradient_if(context->needs_input_grad(1), w1);
    const auto dw2 = gradient_if(context->needs_input_grad(2), w2);
    for_type_of(x, [&]<class T>(T) {
      kernels::perceptron_backward(values<T>(x), values<T>(w1), values<T>(w2), values<T>(hidden),
                                   values<T>(dy), values<T>(dx), values<T>(dw1), values<T>(dw2),
                                   shape(x, w1, w2));
    });
    return {dx, dw1, dw2, Tensor()};
  }

 private:
  static kernels::PerceptronShape shape(const Tensor& x, const Tensor& w1, const Tensor& w2) {
    return {.rows = rows_of(x), .in = x.size(-1), .hidden = w1.size(0), .out = w2.size(0)};
  }
};

class FusedGelu : public torch::autograd::Function<FusedGelu> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const auto x = input.contiguous();
    context->save_for_backward({x});
    auto y = torch::empty_like(x);
    for_type_of(x,
                [&]<class T>(T) { kernels::gelu_forward(values<T>(x), values<T>(y), x.numel()); });
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto x = context->get_saved_variables()[0], dy = gradients[0].contiguous();
    auto dx = torch::empty_like(x);
    for_type_of(x, [&]<class T>(T) {
      kernels::gelu_backward(values<T>(x), values<T>(dy), values<T>(dx), x.numel());
    });
    return {dx};
  }
};

void require_fit(const Tensor& x, const Tensor& weight, const char* where) {
  require(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1), where,
          "a last axis of {} does not fit weights of {} inputs", x.dim() > 0 ? x.size(-1) : 0,
          weight.size(-1));
  require(x.scalar_type() == weight.scalar_type(), where, "input and weights differ in dtype");
}

}  // namespace

Tensor linear_map(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!runs_fused(x))
    return torch::linear(for_product(x), for_product(weight), for_product(bias))
        .to(x.scalar_type());
  require_fit(x, weight, "linear");
  return FusedLinear::apply(x, weight, maybe(bias));
}

Tensor perceptron(const Tensor& x, const Tensor& up, const Tensor& down) {
  if (!runs_fused(x)) {
    const auto hidden = torch::gelu(torch::linear(for_product(x), for_product(up)));
    return torch::linear(hidden, for_product(down)).to(x.scalar_type());
  }
  require_fit(x, up, "perceptron");
  require(down.dim() == 2 && down.size(1) == up.size(0), "perceptron",
          "{} hidden values do not fit weights of {}", up.size(0), down.size(-1));
  return FusedPerceptron::apply(x, up, down, needs_gradient(x, up, down));
}

Tensor exact_gelu(const Tensor& x) { return runs_fused(x) ? FusedGelu::apply(x) : torch::gelu(x); }

}  // namespace geores
