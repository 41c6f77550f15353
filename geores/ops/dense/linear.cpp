#include "geores/ops/dense/linear.h"

#include "geores/base/error.h"
#include "geores/kernels/dense/linear.h"
#include "geores/kernels/dense/projections.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/run/saved_state.h"

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
  struct Kept {
    Tensor x, w;
    bool has_bias, half;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.w);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weights,
                        const OptionalTensor& bias) {
    const auto x = input.contiguous(), w = weights.contiguous(), b = contiguous(bias);
    const bool half = products_in_bfloat16();
    save(context, Kept{.x = x, .w = w, .has_bias = b.defined(), .half = half});
    auto y = with_last_axis(x, w.size(0));
    for_product_types(x, half, [&]<class T, class P>(T, P) {
      kernels::linear_forward<T, P>(values<T>(x), values<T>(w), values<T>(b), values<T>(y),
                                    rows_of(x), w.size(1), w.size(0));
    });
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dy = gradients[0].contiguous();
    const auto dx = buffer_if(context->needs_input_grad(0), s.x);
    const auto dw = gradient_if(context->needs_input_grad(1), s.w);
    const auto db = s.has_bias && context->needs_input_grad(2)
                        ? torch::zeros({s.w.size(0)}, s.w.options())
                        : Tensor();
    for_product_types(s.x, s.half, [&]<class T, class P>(T, P) {
      kernels::linear_backward<T, P>(values<T>(s.x), values<T>(s.w), values<T>(dy), values<T>(dx),
                                     values<T>(dw), values<T>(db), rows_of(s.x), s.w.size(1),
                                     s.w.size(0));
    });
    return {dx, dw, db};
  }
};

class FusedPerceptron : public torch::autograd::Function<FusedPerceptron> {
  struct Kept {
    Tensor x, w1, w2, hidden;
    bool half;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.w1), f(s.w2), f(s.hidden);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& up,
                        const Tensor& down, bool with_backward) {
    const auto x = input.contiguous(), w1 = up.contiguous(), w2 = down.contiguous();
    const auto hidden = with_backward ? with_last_axis(x, w1.size(0)) : Tensor();
    auto y = with_last_axis(x, w2.size(0));
    const bool half = products_in_bfloat16();
    for_product_types(x, half, [&]<class T, class P>(T, P) {
      kernels::perceptron_forward<T, P>(values<T>(x), values<T>(w1), values<T>(w2),
                                        values<T>(hidden), values<T>(y), shape(x, w1, w2));
    });
    save(context, Kept{.x = x, .w1 = w1, .w2 = w2, .hidden = hidden, .half = half});
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dy = gradients[0].contiguous();
    const auto dx = buffer_if(context->needs_input_grad(0), s.x);
    const auto dw1 = gradient_if(context->needs_input_grad(1), s.w1);
    const auto dw2 = gradient_if(context->needs_input_grad(2), s.w2);
    for_product_types(s.x, s.half, [&]<class T, class P>(T, P) {
      kernels::perceptron_backward<T, P>(values<T>(s.x), values<T>(s.w1), values<T>(s.w2),
                                         values<T>(s.hidden), values<T>(dy), values<T>(dx),
                                         values<T>(dw1), values<T>(dw2), shape(s.x, s.w1, s.w2));
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

// Products in bfloat16 on a GPU: x Wᵀ (+ bias) in the requested type, gradients in the type of the
// parameters.
class HalfLinear : public torch::autograd::Function<HalfLinear> {
  struct Kept {
    Tensor in, w;
    WeightGradient weight;
    Tensor bias_slot;
    bool has_bias;
    torch::ScalarType x_type, weight_type;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.in), f(s.w);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& bias, torch::ScalarType type) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous(), w = for_product(weight);
    save(context, Kept{.in = in,
                       .w = w,
                       .weight = WeightGradient::of(weight),
                       .bias_slot = bias.has_value() ? gradient_slot(*bias) : Tensor(),
                       .has_bias = bias.has_value(),
                       .x_type = x.scalar_type(),
                       .weight_type = weight.scalar_type()});
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    auto y = multiply(in, w.t(), type);
    if (bias.has_value()) y.add_(*bias);
    return y.view(shape);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dy = gradients[0].reshape({-1, s.w.size(0)});
    tensor_list result(4);
    Tensor half;
    if (s.has_bias) {
      const auto sum = s.bias_slot.defined()
                           ? s.bias_slot
                           : torch::zeros({s.w.size(0)}, s.w.options().dtype(s.weight_type));
      half = converted_and_summed(dy, torch::kBFloat16, sum);
      if (!s.bias_slot.defined()) result[2] = sum;
    } else {
      half = dy.to(torch::kBFloat16);
    }
    if (context->needs_input_grad(0)) {
      auto shape = gradients[0].sizes().vec();
      shape.back() = s.w.size(1);
      result[0] = multiply(half, s.w, s.x_type).view(shape);
    }
    if (context->needs_input_grad(1)) result[1] = s.weight.from(half, s.in, s.weight_type);
    return result;
  }
};

// The same with rows (and a bias) that are added to each sequence. The backward pass sums their
// gradients and converts the product's factor in one pass over the gradient.
class HalfLinearAndRows : public torch::autograd::Function<HalfLinearAndRows> {
  struct Kept {
    Tensor in, w, rows, bias;
    WeightGradient weight;
    Tensor rows_slot, bias_slot;
    torch::ScalarType x_type;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.in), f(s.w), f(s.rows), f(s.bias);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& all_rows, const Tensor& biases) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous(), w = for_product(weight);
    const auto rows = all_rows.contiguous(), bias = biases.contiguous();
    save(context, Kept{.in = in,
                       .w = w,
                       .rows = rows,
                       .bias = bias,
                       .weight = WeightGradient::of(weight),
                       .rows_slot = gradient_slot(rows),
                       .bias_slot = gradient_slot(bias),
                       .x_type = x.scalar_type()});
    return product_and_rows(in, w, rows, bias)
        .view({in.size(0) / rows.size(0), rows.size(0), rows.size(1)});
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto drows = parameter_sum(s.rows, s.rows_slot),
               dbias = parameter_sum(s.bias, s.bias_slot);
    const auto dy = gradients[0].contiguous();
    const auto half = torch::empty({s.in.size(0), s.w.size(0)}, s.w.options());
    on_gpu(dy, half, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::sum_rows<T, A>(stream, values<T>(dy), values<A>(half), values<T>(drows.sum),
                              values<T>(dbias.sum), dy.size(0), s.rows.numel(), s.rows.size(1));
    });
    tensor_list result = {Tensor(), Tensor(), drows.gradient, dbias.gradient};
    if (context->needs_input_grad(0))
      result[0] = multiply(half, s.w, s.x_type).view({dy.size(0), dy.size(1), s.w.size(1)});
    if (context->needs_input_grad(1)) result[1] = s.weight.from(half, s.in, torch::kFloat32);
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

// The perceptron on a GPU: BLAS products and our GELU kernel, in the type of activations.
class DevicePerceptron : public torch::autograd::Function<DevicePerceptron> {
  struct Kept {
    Tensor in, w1, w2, hidden, active;
    WeightGradient up, down;
    torch::ScalarType x_type, weight_type;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.in), f(s.w1), f(s.w2), f(s.hidden), f(s.active);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& up,
                        const Tensor& down) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous();
    const auto w1 = for_product(up), w2 = for_product(down);
    const auto [hidden, active] = product_and_gelu(in, w1);
    save(context, Kept{.in = in,
                       .w1 = w1,
                       .w2 = w2,
                       .hidden = hidden,
                       .active = active,
                       .up = WeightGradient::of(up),
                       .down = WeightGradient::of(down),
                       .x_type = x.scalar_type(),
                       .weight_type = up.scalar_type()});
    auto shape = x.sizes().vec();
    shape.back() = down.size(0);
    return multiply(active, w2.t(), x.scalar_type()).view(shape);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dy = gradients[0].reshape({-1, s.w2.size(0)}).to(s.in.scalar_type()).contiguous();
    const auto dhidden = product_and_gelu_slope(dy, s.w2, s.hidden);
    tensor_list result(3);
    if (context->needs_input_grad(0)) {
      auto shape = gradients[0].sizes().vec();
      shape.back() = s.w1.size(1);
      result[0] = multiply(dhidden, s.w1, s.x_type).view(shape);
    }
    if (context->needs_input_grad(1)) result[1] = s.up.from(dhidden, s.in, s.weight_type);
    if (context->needs_input_grad(2)) result[2] = s.down.from(dy, s.active, s.weight_type);
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
  return linear_map_to(x, weight, bias, x.scalar_type());
}

Tensor linear_map_to(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     torch::ScalarType type) {
  if (KernelChoice::half("linear_map", x, "bfloat16 product").runs())
    return HalfLinear::apply(x, weight, maybe(bias), type);
  // On a GPU the library's product is equally fast.
  if (!KernelChoice("linear_map", x, "own product").need(!on_gpu(x), "a CPU").runs())
    return torch::linear(for_product(x), for_product(weight), for_product(bias)).to(type);
  require_fit(x, weight, "linear");
  return FusedLinear::apply(x, weight, maybe(bias)).to(type);
}

Tensor linear_map_and_rows(const Tensor& x, const Tensor& weight, const Tensor& rows,
                           const Tensor& bias) {
  if (KernelChoice::half("linear_map_and_rows", x)
          .need(rows.scalar_type() == torch::kFloat32, "float32 rows")
          .need(x.numel() > 0, "at least one value")
          .runs())
    return HalfLinearAndRows::apply(x, weight, rows, bias);
  return add_to_each(linear_map_to(x, weight, {}, rows.scalar_type()), rows, bias);
}

Tensor perceptron(const Tensor& x, const Tensor& up, const Tensor& down) {
  if (runs_half_product(x) ? KernelChoice::half("perceptron", x).runs()
                           : KernelChoice("perceptron", x, "library's products, own GELU")
                                 .need(on_gpu(x), "a GPU")
                                 .runs())
    return DevicePerceptron::apply(x, up, down);
  if (!KernelChoice("perceptron", x, "blocks of rows in cache").need(!on_gpu(x), "a CPU").runs()) {
    const auto hidden = torch::gelu(torch::linear(for_product(x), for_product(up)));
    return torch::linear(hidden, for_product(down)).to(x.scalar_type());
  }
  require_fit(x, up, "perceptron");
  require(down.dim() == 2 && down.size(1) == up.size(0), "perceptron",
          "{} hidden values do not fit weights of {}", up.size(0), down.size(-1));
  return FusedPerceptron::apply(x, up, down, needs_gradient(x, up, down));
}

Tensor exact_gelu(const Tensor& x) {
  return runs_cpu_kernel(x) ? FusedGelu::apply(x) : torch::gelu(x);
}

}  // namespace geores
