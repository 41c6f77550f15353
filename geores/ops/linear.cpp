#include "geores/ops/linear.h"

#include "geores/base/error.h"
#include "geores/kernels/linear.h"
#include "geores/ops/fused.h"
#include "geores/ops/precision.h"
#include "geores/ops/products.h"

namespace geores {
namespace {

using namespace fused;

int64_t rows_of(const Tensor& x) { return x.size(-1) > 0 ? x.numel() / x.size(-1) : 0; }

Tensor by_row(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

Tensor with_last_axis(const Tensor& x, int64_t size) {
  auto shape = x.sizes().vec();
  shape.back() = size;
  return torch::empty(shape, x.options());
}

torch::ScalarType saved_type(AutogradContext* context, const char* name) {
  return static_cast<torch::ScalarType>(context->saved_data[name].toInt());
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

// Products in bfloat16 on a GPU: x W (+ bias) in the type of x, gradients of parameters in theirs.
class HalfLinear : public torch::autograd::Function<HalfLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& bias, torch::ScalarType type) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous(), w = for_product(weight);
    context->save_for_backward({in, w});
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
    const auto dy = gradients[0].reshape({-1, w.size(0)});
    tensor_list result(4);
    Tensor half;
    if (context->saved_data["bias"].toBool()) {
      const auto [converted, sum] = converted_and_summed(dy, torch::kBFloat16);
      half = converted;
      result[2] = sum.to(saved_type(context, "weight_type"));
    } else {
      half = dy.to(torch::kBFloat16);
    }
    if (context->needs_input_grad(0)) {
      auto shape = gradients[0].sizes().vec();
      shape.back() = w.size(1);
      result[0] = multiply(half, w, saved_type(context, "x_type")).view(shape);
    }
    if (context->needs_input_grad(1))
      result[1] = multiply(half.t(), in, saved_type(context, "weight_type"));
    return result;
  }
};

// The perceptron on a GPU: products by the BLAS, GELU by our kernels, in the type of activations.
class DevicePerceptron : public torch::autograd::Function<DevicePerceptron> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& up,
                        const Tensor& down) {
    const auto in = for_product(x).reshape({-1, x.size(-1)}).contiguous();
    const auto w1 = for_product(up), w2 = for_product(down);
    const auto hidden = at::mm(in, w1.t());
    const auto active = torch::empty_like(hidden);
    on_activations(hidden, [&]<class A>(A, kernels::Stream stream) {
      kernels::gelu_forward(stream, values<A>(hidden), values<A>(active), hidden.numel());
    });
    context->save_for_backward({in, w1, w2, hidden, active});
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
    const auto dy = gradients[0].reshape({-1, w2.size(0)}).to(in.scalar_type());
    const auto dhidden = at::mm(dy, w2);
    on_activations(hidden, [&]<class A>(A, kernels::Stream stream) {
      kernels::gelu_backward(stream, values<A>(hidden), values<A>(dhidden), values<A>(dhidden),
                             hidden.numel());
    });
    tensor_list result(3);
    if (context->needs_input_grad(0)) {
      auto shape = gradients[0].sizes().vec();
      shape.back() = w1.size(1);
      result[0] = multiply(dhidden, w1, saved_type(context, "x_type")).view(shape);
    }
    if (context->needs_input_grad(1))
      result[1] = multiply(dhidden.t(), in, saved_type(context, "weight_type"));
    if (context->needs_input_grad(2))
      result[2] = multiply(dy.t(), active, saved_type(context, "weight_type"));
    return result;
  }

 private:
  template <class F>
  static void on_activations(const Tensor& x, F&& f) {
    if constexpr (kernels::kHasCuda) {
      if (x.scalar_type() == torch::kBFloat16)
        f(kernels::BFloat16(), current_stream());
      else
        for_type_of(x, [&]<class T>(T) { f(T(), current_stream()); });
    }
  }
};

// state + y for a float32 state and a bfloat16 y, on a GPU.
class FusedAddBranch : public torch::autograd::Function<FusedAddBranch> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& states, const Tensor& branches) {
    const auto state = states.contiguous(), branch = branches.contiguous();
    auto out = torch::empty_like(state);
    on_gpu(state, branch, [&]<class T, class A>(T, A, kernels::Stream stream) {
      kernels::add_branch(stream, values<T>(state), values<A>(branch), values<T>(out),
                          state.numel());
    });
    return out;
  }

  static tensor_list backward(AutogradContext*, tensor_list gradients) {
    return {gradients[0], gradients[0].to(torch::kBFloat16)};
  }
};

// A view into the copy of all weights may begin anywhere; kernels want 16 bytes.
Tensor aligned(const Tensor& weight) {
  const auto w = for_product(weight).contiguous();
  return reinterpret_cast<uintptr_t>(w.data_ptr()) % 16 == 0 ? w : w.clone();
}

// state + x Wᵀ in bfloat16 by our own kernel on a GPU.
class HalfAddLinear : public torch::autograd::Function<HalfAddLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& states, const Tensor& x,
                        const Tensor& weight) {
    const auto state = states.contiguous(), in = x.contiguous(), w = aligned(weight);
    auto y = torch::empty_like(state);
    if constexpr (kernels::kHasCuda)
      kernels::add_linear_forward(current_stream(), values<kernels::BFloat16>(in),
                                  values<kernels::BFloat16>(w), values<float>(state),
                                  values<float>(y), rows_of(in), w.size(0));
    context->save_for_backward({in, w});
    context->saved_data["weight_type"] = static_cast<int64_t>(weight.scalar_type());
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &w = saved[1];
    const auto dy = gradients[0].contiguous();
    const auto dx = torch::empty_like(in), half = torch::empty_like(in);
    if constexpr (kernels::kHasCuda)
      kernels::add_linear_backward(current_stream(), values<kernels::BFloat16>(w),
                                   values<float>(dy), values<kernels::BFloat16>(dx),
                                   values<kernels::BFloat16>(half), rows_of(in), w.size(0));
    return {gradients[0], dx,
            multiply(by_row(half).t(), by_row(in), saved_type(context, "weight_type"))};
  }
};

// The perceptron, added to a state or not, in bfloat16 by our own kernel on a GPU: the hidden layer
// is worked out again in the backward pass, and the weights' gradients are the BLAS's.
class HalfPerceptron : public torch::autograd::Function<HalfPerceptron> {
 public:
  static Tensor forward(AutogradContext* context, const OptionalTensor& states, const Tensor& x,
                        const Tensor& up, const Tensor& down) {
    const auto state = contiguous(states), in = x.contiguous();
    const auto w1 = aligned(up), w2 = aligned(down);
    auto y = torch::empty_like(state.defined() ? state : in);
    with_result(y, [&]<class Y>(Y, kernels::Stream stream) {
      using kernels::BFloat16;
      kernels::perceptron_forward(stream, values<BFloat16>(in), values<BFloat16>(w1),
                                  values<BFloat16>(w2), values<float>(state), values<Y>(y),
                                  shape(in, w1));
    });
    context->save_for_backward({in, w1, w2});
    context->saved_data["weight_type"] = static_cast<int64_t>(up.scalar_type());
    context->saved_data["added"] = state.defined();
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &w1 = saved[1], &w2 = saved[2];
    const auto added = context->saved_data["added"].toBool();
    const auto dy = gradients[0].contiguous();
    const auto dx = torch::empty_like(in), half = added ? torch::empty_like(in) : dy;
    const auto active = torch::empty({rows_of(in), w1.size(0)}, in.options());
    const auto dhidden = torch::empty_like(active);
    with_result(dy, [&]<class Y>(Y, kernels::Stream stream) {
      using kernels::BFloat16;
      kernels::perceptron_backward<Y>(stream,
                                      {.x = values<BFloat16>(in),
                                       .w1 = values<BFloat16>(w1),
                                       .w2 = values<BFloat16>(w2),
                                       .dy = values<Y>(dy),
                                       .dx = values<BFloat16>(dx),
                                       .active = values<BFloat16>(active),
                                       .dhidden = values<BFloat16>(dhidden),
                                       .dy_rounded = added ? values<BFloat16>(half) : nullptr},
                                      shape(in, w1));
    });
    const auto type = saved_type(context, "weight_type");
    return {added ? gradients[0] : Tensor(), dx, multiply(dhidden.t(), by_row(in), type),
            multiply(by_row(half).t(), active, type)};
  }

 private:
  static kernels::PerceptronShape shape(const Tensor& x, const Tensor& up) {
    return {.rows = rows_of(x), .in = x.size(-1), .hidden = up.size(0), .out = x.size(-1)};
  }

  template <class F>
  static void with_result(const Tensor& y, F&& f) {
    if constexpr (kernels::kHasCuda) {
      if (y.scalar_type() == torch::kFloat32)
        f(float(), current_stream());
      else
        f(kernels::BFloat16(), current_stream());
    }
  }
};

// a b in bfloat16 for two matrices of parameters.
class HalfWeightProduct : public torch::autograd::Function<HalfWeightProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& left, const Tensor& right) {
    const auto a = for_product(left), b = for_product(right);
    context->save_for_backward({a, b});
    return at::mm(a, b);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto d = gradients[0].contiguous();
    return {multiply(d, saved[1].t(), torch::kFloat32), multiply(saved[0].t(), d, torch::kFloat32)};
  }
};

// Whether products with x are done in bfloat16 by the functions above.
bool runs_in_half_on_gpu(const Tensor& x) {
  return kernels::kHasCuda && implementation() == Implementation::fused && products_in_bfloat16() &&
         x.is_cuda() && (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16);
}

// Whether x is an activation in bfloat16 of a model whose products are, and `state`, where there is
// one, a float32 state to add to.
bool takes_half(const Tensor& x, const Tensor& state) {
  return runs_in_half_on_gpu(x) && x.scalar_type() == torch::kBFloat16 && x.numel() > 0 &&
         (!state.defined() ||
          (state.scalar_type() == torch::kFloat32 && state.sizes() == x.sizes()));
}

bool perceptron_runs_in_half(const Tensor& x, const Tensor& up, const Tensor& down,
                             const Tensor& state = {}) {
  return takes_half(x, state) &&
         kernels::perceptron_fits_device(
             {.rows = rows_of(x), .in = x.size(-1), .hidden = up.size(0), .out = down.size(0)});
}

void require_fit(const Tensor& x, const Tensor& weight, const char* where) {
  require(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1), where,
          "a last axis of {} does not fit weights of {} inputs", x.dim() > 0 ? x.size(-1) : 0,
          weight.size(-1));
  require(x.scalar_type() == weight.scalar_type(), where, "input and weights differ in dtype");
}

}  // namespace

Tensor linear_map(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (runs_in_half_on_gpu(x)) return HalfLinear::apply(x, weight, maybe(bias), x.scalar_type());
  if (!runs_fused(x))
    return torch::linear(for_product(x), for_product(weight), for_product(bias))
        .to(x.scalar_type());
  require_fit(x, weight, "linear");
  return FusedLinear::apply(x, weight, maybe(bias));
}

Tensor linear_map_to(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     torch::ScalarType type) {
  if (runs_in_half_on_gpu(x)) return HalfLinear::apply(x, weight, maybe(bias), type);
  return linear_map(x, weight, bias).to(type);
}

Tensor weight_product(const Tensor& a, const Tensor& b) {
  return runs_in_half_on_gpu(a) ? HalfWeightProduct::apply(a, b) : a.matmul(b);
}

Tensor perceptron(const Tensor& x, const Tensor& up, const Tensor& down) {
  if (perceptron_runs_in_half(x, up, down))
    return HalfPerceptron::apply(OptionalTensor(), x, up, down);
  if (runs_on_gpu(x) || runs_in_half_on_gpu(x)) return DevicePerceptron::apply(x, up, down);
  if (!runs_fused(x)) {
    const auto hidden = torch::gelu(torch::linear(for_product(x), for_product(up)));
    return torch::linear(hidden, for_product(down)).to(x.scalar_type());
  }
  require_fit(x, up, "perceptron");
  require(down.dim() == 2 && down.size(1) == up.size(0), "perceptron",
          "{} hidden values do not fit weights of {}", up.size(0), down.size(-1));
  return FusedPerceptron::apply(x, up, down, needs_gradient(x, up, down));
}

Tensor add_branch(const Tensor& state, const Tensor& y) {
  if (!state.defined()) return y;
  if (takes_half(y, state)) return FusedAddBranch::apply(state, y);
  return state + y;
}

Tensor add_linear_map(const Tensor& state, const Tensor& x, const Tensor& weight) {
  if (state.defined() && takes_half(x, state) && kernels::is_device_product_width(x.size(-1)))
    return HalfAddLinear::apply(state, x, weight);
  return add_branch(state, linear_map(x, weight));
}

Tensor add_perceptron(const Tensor& state, const Tensor& x, const Tensor& up, const Tensor& down) {
  if (state.defined() && perceptron_runs_in_half(x, up, down, state))
    return HalfPerceptron::apply(maybe(state), x, up, down);
  return add_branch(state, perceptron(x, up, down));
}

Tensor exact_gelu(const Tensor& x) { return runs_fused(x) ? FusedGelu::apply(x) : torch::gelu(x); }

}  // namespace geores
