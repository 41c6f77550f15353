#include "geores/ops/dense/linear.h"

#include "geores/base/error.h"
#include "geores/kernels/dense/linear.h"
#include "geores/kernels/dense/projections.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/precision.h"

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
    const bool half = products_in_bfloat16();
    context->saved_data["half"] = half;
    auto y = with_last_axis(x, w.size(0));
    for_product_types(x, half, [&]<class T, class P>(T, P) {
      kernels::linear_forward<T, P>(values<T>(x), values<T>(w), values<T>(b), values<T>(y),
                                    rows_of(x), w.size(1), w.size(0));
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
    for_product_types(x, context->saved_data["half"].toBool(), [&]<class T, class P>(T, P) {
      kernels::linear_backward<T, P>(values<T>(x), values<T>(w), values<T>(dy), values<T>(dx),
                                     values<T>(dw), values<T>(db), rows_of(x), w.size(1),
                                     w.size(0));
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
    const bool half = products_in_bfloat16();
    context->saved_data["half"] = half;
    for_product_types(x, half, [&]<class T, class P>(T, P) {
      kernels::perceptron_forward<T, P>(values<T>(x), values<T>(w1), values<T>(w2),
                                        values<T>(hidden), values<T>(y), shape(x, w1, w2));
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
    for_product_types(x, context->saved_data["half"].toBool(), [&]<class T, class P>(T, P) {
      kernels::perceptron_backward<T, P>(values<T>(x), values<T>(w1), values<T>(w2),
                                         values<T>(hidden), values<T>(dy), values<T>(dx),
                                         values<T>(dw1), values<T>(dw2), shape(x, w1, w2));
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

// Products in bfloat16 on a GPU: x W (+ bias) in the type of x, gradients of parameters in theirs.
class HalfLinear : public torch::autograd::Function<HalfLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& bias, torch::ScalarType type) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous(), w = for_product(weight);
    context->save_for_backward(
        {in, w, gradient_place(weight), bias.has_value() ? gradient_place(*bias) : Tensor()});
    keep(context, weight_gradients());
    context->saved_data["x_type"] = static_cast<int64_t>(x.scalar_type());
    context->saved_data["weight_type"] = static_cast<int64_t>(weight.scalar_type());
    context->saved_data["bias"] = bias.has_value();
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    auto y = multiply(in, w.t(), type);
    if (bias.has_value()) y.add_(*bias);
    return y.view(shape);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &w = saved[1];
    const auto type = [&](const char* name) {
      return static_cast<torch::ScalarType>(context->saved_data[name].toInt());
    };
    const auto dy = gradients[0].reshape({-1, w.size(0)});
    tensor_list result(4);
    Tensor half;
    if (context->saved_data["bias"].toBool()) {
      const auto& place = saved[3];
      const auto sum = place.defined()
                           ? place
                           : torch::zeros({w.size(0)}, w.options().dtype(type("weight_type")));
      half = converted_and_summed(dy, torch::kBFloat16, sum);
      if (!place.defined()) result[2] = sum;
    } else {
      half = dy.to(torch::kBFloat16);
    }
    if (context->needs_input_grad(0)) {
      auto shape = gradients[0].sizes().vec();
      shape.back() = w.size(1);
      result[0] = multiply(half, w, type("x_type")).view(shape);
    }
    if (context->needs_input_grad(1))
      result[1] = weight_gradient(context, half, in, saved[2], type("weight_type"));
    return result;
  }
};

// The same with rows (and a bias) that are added to each sequence: on the way back their sums and
// the product's factor are one pass over the gradient.
class HalfLinearAndRows : public torch::autograd::Function<HalfLinearAndRows> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& all_rows, const Tensor& biases) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous(), w = for_product(weight);
    const auto rows = all_rows.contiguous(), bias = biases.contiguous();
    context->save_for_backward(
        {in, w, rows, bias, gradient_place(weight), gradient_place(rows), gradient_place(bias)});
    keep(context, weight_gradients());
    context->saved_data["x_type"] = static_cast<int64_t>(x.scalar_type());
    return product_and_rows(in, w, rows, bias)
        .view({in.size(0) / rows.size(0), rows.size(0), rows.size(1)});
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &w = saved[1], &rows = saved[2];
    const auto drows = parameter_sum(rows, saved[5]), dbias = parameter_sum(saved[3], saved[6]);
    const auto dy = gradients[0].contiguous();
    const auto half = torch::empty({in.size(0), w.size(0)}, w.options());
    on_gpu(dy, half, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::sum_rows<T, A>(stream, values<T>(dy), values<A>(half), values<T>(drows.sum),
                              values<T>(dbias.sum), dy.size(0), rows.numel(), rows.size(1));
    });
    tensor_list result = {Tensor(), Tensor(), drows.gradient, dbias.gradient};
    if (context->needs_input_grad(0)) {
      const auto type = static_cast<torch::ScalarType>(context->saved_data["x_type"].toInt());
      result[0] = multiply(half, w, type).view({dy.size(0), dy.size(1), w.size(1)});
    }
    if (context->needs_input_grad(1))
      result[1] = weight_gradient(context, half, in, saved[4], torch::kFloat32);
    return result;
  }

 private:
  static Tensor product_and_rows(const Tensor& in, const Tensor& w, const Tensor& rows,
                                 const Tensor& bias) {
    const auto sequences = in.size(0) / rows.size(0);
    if (!kernels::fits_product_and_rows(w.size(1), w.size(0))) {
      const auto y = multiply(in, w.t(), torch::kFloat32);
      on_gpu(y, [&]<class T>(T, kernels::CudaStream stream) {
        kernels::add_rows<T>(stream, values<T>(y), values<T>(rows), values<T>(bias), values<T>(y),
                             sequences, rows.numel(), rows.size(1));
      });
      return y;
    }
    const auto y = torch::empty({in.size(0), w.size(0)}, rows.options());
    if constexpr (kernels::kHasCuda)
      kernels::product_and_rows(
          current_cuda_stream(), values<kernels::BFloat16>(in), values<kernels::BFloat16>(w),
          values<float>(rows), values<float>(bias), values<float>(y),
          {.sequences = sequences, .length = rows.size(0), .in = w.size(1), .out = w.size(0)});
    return y;
  }
};

// The perceptron on a GPU: products by the BLAS, GELU by our kernels, in the type of activations.
class DevicePerceptron : public torch::autograd::Function<DevicePerceptron> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& up,
                        const Tensor& down) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous();
    const auto w1 = for_product(up), w2 = for_product(down);
    const auto [hidden, active] = product_and_gelu(in, w1);
    context->save_for_backward(
        {in, w1, w2, hidden, active, gradient_place(up), gradient_place(down)});
    keep(context, weight_gradients());
    context->saved_data["x_type"] = static_cast<int64_t>(x.scalar_type());
    context->saved_data["weight_type"] = static_cast<int64_t>(up.scalar_type());
    auto shape = x.sizes().vec();
    shape.back() = down.size(0);
    return multiply(active, w2.t(), x.scalar_type()).view(shape);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &w1 = saved[1], &w2 = saved[2], &hidden = saved[3],
               &active = saved[4];
    const auto type = [&](const char* name) {
      return static_cast<torch::ScalarType>(context->saved_data[name].toInt());
    };
    const auto dy = gradients[0].reshape({-1, w2.size(0)}).to(in.scalar_type()).contiguous();
    const auto dhidden = product_and_gelu_slope(dy, w2, hidden);
    tensor_list result(3);
    if (context->needs_input_grad(0)) {
      auto shape = gradients[0].sizes().vec();
      shape.back() = w1.size(1);
      result[0] = multiply(dhidden, w1, type("x_type")).view(shape);
    }
    if (context->needs_input_grad(1))
      result[1] = weight_gradient(context, dhidden, in, saved[5], type("weight_type"));
    if (context->needs_input_grad(2))
      result[2] = weight_gradient(context, dy, active, saved[6], type("weight_type"));
    return result;
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
  if (runs_half_product(x)) return HalfLinear::apply(x, weight, maybe(bias), x.scalar_type());
  if (!runs_cpu_kernel(x))
    return torch::linear(for_product(x), for_product(weight), for_product(bias))
        .to(x.scalar_type());
  require_fit(x, weight, "linear");
  return FusedLinear::apply(x, weight, maybe(bias));
}

Tensor linear_map_to(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     torch::ScalarType type) {
  if (runs_half_product(x)) return HalfLinear::apply(x, weight, maybe(bias), type);
  return linear_map(x, weight, bias).to(type);
}

Tensor linear_map_and_rows(const Tensor& x, const Tensor& weight, const Tensor& rows,
                           const Tensor& bias) {
  if (runs_half_product(x) && rows.scalar_type() == torch::kFloat32 && x.numel() > 0)
    return HalfLinearAndRows::apply(x, weight, rows, bias);
  return add_to_each(linear_map_to(x, weight, {}, rows.scalar_type()), rows, bias);
}

Tensor perceptron(const Tensor& x, const Tensor& up, const Tensor& down) {
  if (runs_cuda_kernel(x) || runs_half_product(x)) return DevicePerceptron::apply(x, up, down);
  if (!runs_cpu_kernel(x)) {
    const auto hidden = torch::gelu(torch::linear(for_product(x), for_product(up)));
    return torch::linear(hidden, for_product(down)).to(x.scalar_type());
  }
  require_fit(x, up, "perceptron");
  require(down.dim() == 2 && down.size(1) == up.size(0), "perceptron",
          "{} hidden values do not fit weights of {}", up.size(0), down.size(-1));
  return FusedPerceptron::apply(x, up, down, needs_gradient(x, up, down));
}

Tensor exact_gelu(const Tensor& x) { return runs_cpu_kernel(x) ? FusedGelu::apply(x) : torch::gelu(x); }

}  // namespace geores
