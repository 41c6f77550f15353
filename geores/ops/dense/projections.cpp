#include "geores/ops/dense/projections.h"

#include "geores/kernels/dense/projections.h"
#include "geores/kernels/tokens/token_routes.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

// Weight, bias and, if it has one, scale of each projection, in order.
template <class T>
kernels::Projections<T> arrays_of(at::TensorList parameters, const std::vector<int64_t>& has_scale,
                                  int64_t in) {
  using Value = std::remove_const_t<T>;
  kernels::Projections<T> p{
      .each = {}, .count = static_cast<int>(has_scale.size()), .in = static_cast<int>(in)};
  size_t next = 0;
  for (size_t i = 0; i < has_scale.size(); ++i) {
    auto& one = p.each[i];
    one.rows = static_cast<int>(parameters[next].size(0));
    one.weight = values<Value>(parameters[next++]);
    one.bias = values<Value>(parameters[next++]);
    one.scales = has_scale[i] ? static_cast<int>(parameters[next].numel()) : 1;
    one.scale = has_scale[i] ? values<Value>(parameters[next++]) : nullptr;
  }
  return p;
}

}  // namespace

Tensor converted_and_summed(const Tensor& gradient, torch::ScalarType type, const Tensor& sum) {
  if (!runs_cuda_kernel(gradient) || gradient.size(1) > kernels::kMostSummedColumns ||
      sum.scalar_type() != gradient.scalar_type()) {
    sum.add_(gradient.sum(0));
    return gradient.to(type);
  }
  const auto dy = gradient.contiguous();
  const auto converted = torch::empty(dy.sizes(), dy.options().dtype(type));
  on_gpu(dy, converted, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
    kernels::convert_and_sum(stream, values<T>(dy), values<A>(converted), values<T>(sum),
                             dy.size(0), dy.size(1));
  });
  return converted;
}

PackedProjections::PackedProjections(at::TensorList parameters, std::vector<int64_t> has_scale)
    : parameters_(parameters.vec()), has_scale_(std::move(has_scale)) {}

std::vector<Tensor> PackedProjections::parameters_of(
    const std::vector<ProjectionWeights>& projections) {
  std::vector<Tensor> parameters;
  for (const auto& p : projections) {
    parameters.insert(parameters.end(), {p.weight, p.bias});
    if (p.scale.defined()) parameters.push_back(p.scale);
  }
  return parameters;
}

std::vector<int64_t> PackedProjections::scales_of(
    const std::vector<ProjectionWeights>& projections) {
  std::vector<int64_t> has_scale;
  for (const auto& p : projections) has_scale.push_back(p.scale.defined());
  return has_scale;
}

bool PackedProjections::fit(const std::vector<ProjectionWeights>& projections) {
  if (projections.size() > kernels::kMostProjections) return false;
  for (const auto& p : projections) {
    if (!p.bias.defined() || !p.weight.is_contiguous() || !p.bias.is_contiguous()) return false;
    if (p.scale.defined() && (!p.scale.is_contiguous() || p.bias.numel() % p.scale.numel() != 0))
      return false;
  }
  return runs_cuda_kernel(projections[0].weight);
}

PackedProjections::Packed PackedProjections::packed() const {
  const auto& like = parameters_[0];
  if (has_scale_ == std::vector<int64_t>{0})  // unchanged
    return {for_product(like), parameters_[1].reshape({-1})};
  Packed result{for_product_of(like, {rows(), like.size(1)}),
                torch::empty({rows()}, like.options())};
  on_gpu(like, result.weight, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
    kernels::pack_projections(stream, arrays_of<const T>(parameters_, has_scale_, like.size(1)),
                              values<A>(result.weight), values<T>(result.bias));
  });
  return result;
}

int64_t PackedProjections::rows() const {
  int64_t sum = 0;
  for (size_t i = 0, next = 0; i < has_scale_.size(); next += has_scale_[i++] ? 3 : 2)
    sum += parameters_[next].size(0);
  return sum;
}

std::vector<Tensor> PackedProjections::gradients(const Tensor& dweight, const Tensor& dbias,
                                                 const std::vector<Tensor>& slots) const {
  int64_t without = 0;  // values of parameters without a slot
  bool has_slots = false;
  for (size_t i = 0; i < slots.size(); ++i) {
    has_slots = has_slots || slots[i].defined();
    if (!slots[i].defined()) without += parameters_[i].numel();
  }
  if (has_scale_ == std::vector<int64_t>{0} && !has_slots)
    return {dweight, dbias.view(parameters_[1].sizes())};
  Tensor zeros;  // cleared with one kernel
  if (without > 0) zeros = torch::zeros({without}, parameters_[0].options());
  std::vector<Tensor> sums = slots, result(slots.size());
  int64_t used = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].defined()) continue;
    const auto begin = used;
    used += parameters_[i].numel();
    sums[i] = result[i] = zeros.slice(0, begin, used).view(parameters_[i].sizes());
  }
  on_gpu(parameters_[0], [&]<class T>(T, kernels::CudaStream stream) {
    const auto in = dweight.size(1);
    kernels::unpack_projection_gradients<T>(stream, arrays_of<const T>(parameters_, has_scale_, in),
                                            values<T>(dweight), values<T>(dbias),
                                            arrays_of<T>(sums, has_scale_, in));
  });
  return result;
}

PackedProjections::PackedBehindNorm PackedProjections::packed_behind(
    const Tensor& norm_weight, const Tensor& norm_bias) const {
  const auto& like = parameters_[0];
  const auto in = like.size(1);
  const auto half = like.options().dtype(torch::kBFloat16);
  const auto stored = kernels::stored_raw(rows());
  const PackedBehindNorm result{torch::empty({stored * in}, half),
                                torch::empty({kernels::padded_raw(rows()) * in}, half),
                                torch::empty({stored}, like.options())};
  if constexpr (kernels::kHasCuda)
    kernels::pack_route_weights(current_cuda_stream(),
                                arrays_of<const float>(parameters_, has_scale_, in),
                                {values<float>(norm_weight), values<float>(norm_bias)},
                                {.forward = values<kernels::BFloat16>(result.forward),
                                 .backward = values<kernels::BFloat16>(result.backward),
                                 .bias = values<float>(result.bias)});
  return result;
}

std::function<void(kernels::CudaStream)> PackedProjections::unpacking_behind(
    const Tensor& norm_weight, const Tensor& norm_bias, const Tensor& dweight, const Tensor& dbias,
    const std::vector<Tensor>& gradients, const Tensor& dnorm_weight,
    const Tensor& dnorm_bias) const {
  const auto in = dweight.size(1);
  return [=, from = arrays_of<const float>(parameters_, has_scale_, in),
          to = arrays_of<float>(gradients, has_scale_, in)](
             [[maybe_unused]] kernels::CudaStream stream) {
    if constexpr (kernels::kHasCuda)
      kernels::unpack_route_gradients(stream, from,
                                      {values<float>(norm_weight), values<float>(norm_bias)},
                                      values<float>(dweight), values<float>(dbias), to,
                                      values<float>(dnorm_weight), values<float>(dnorm_bias));
  };
}

namespace {

// The kernels of a GPU.
class FusedProjections : public torch::autograd::Function<FusedProjections> {
  struct Kept {
    Tensor in, weight;
    KeptParameters parameters;
    std::vector<int64_t> has_scale;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.in), f(s.weight), f(s.parameters.values);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& h, at::TensorList parameters,
                        const std::vector<int64_t>& has_scale) {
    const auto in = h.reshape({-1, h.size(-1)}).contiguous();
    const auto [weight, bias] = PackedProjections(parameters, has_scale).packed();
    save(context, Kept{.in = in,
                       .weight = weight,
                       .parameters = KeptParameters::of(parameters),
                       .has_scale = has_scale});
    auto shape = h.sizes().vec();
    shape.back() = weight.size(0);
    return multiply(in, weight.t(), bias.scalar_type()).add_(bias).view(shape);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto& parameters = s.parameters.values;
    const auto type = parameters[0].scalar_type();
    const auto dy = gradients[0].reshape({-1, s.weight.size(0)});
    const auto dbias = torch::zeros({s.weight.size(0)}, parameters[0].options());
    const auto half = converted_and_summed(dy, s.in.scalar_type(), dbias);
    auto shape = gradients[0].sizes().vec();
    shape.back() = s.in.size(1);
    tensor_list result = {multiply(half, s.weight, s.in.scalar_type()).view(shape)};
    for (const auto& gradient :
         PackedProjections(parameters, s.has_scale)
             .gradients(multiply(half.t(), s.in, type), dbias, s.parameters.slots))
      result.push_back(gradient);
    result.push_back(Tensor());
    return result;
  }
};

class FusedAddToEach : public torch::autograd::Function<FusedAddToEach> {
  struct Kept {
    Tensor rows, bias;
    Tensor rows_slot, bias_slot;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.rows), f(s.bias);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& all_rows,
                        const OptionalTensor& biases) {
    const auto x = input.contiguous(), rows = all_rows.contiguous(), bias = contiguous(biases);
    save(context, Kept{.rows = rows,
                       .bias = bias,
                       .rows_slot = gradient_slot(rows),
                       .bias_slot = gradient_slot(bias)});
    auto out = torch::empty_like(x);
    on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::add_rows(stream, values<T>(x), values<T>(rows), values<T>(bias), values<T>(out),
                        x.size(0), rows.numel(), rows.size(1));
    });
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto drows = parameter_sum(s.rows, s.rows_slot),
               dbias = parameter_sum(s.bias, s.bias_slot);
    const auto d = gradients[0].contiguous();
    on_gpu(d, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::sum_rows<T, T>(stream, values<T>(d), nullptr, values<T>(drows.sum),
                              values<T>(dbias.sum), d.size(0), s.rows.numel(), s.rows.size(1));
    });
    return {gradients[0], drows.gradient, dbias.gradient};
  }
};

}  // namespace

Tensor add_to_each(const Tensor& x, const Tensor& rows, const Tensor& bias) {
  if (KernelChoice("add_to_each", x)
          .need(on_gpu(x), "a GPU")
          .need(x.dim() == 3 && rows.dim() == 2, "sequences of rows")
          .need(x.numel() > 0, "at least one value")
          .runs())
    return FusedAddToEach::apply(x, rows, maybe(bias));
  return x + (bias.defined() ? rows + bias : rows);  // one pass over x
}

LinearMap side_by_side(const std::vector<ProjectionWeights>& projections) {
  std::vector<Tensor> weights, biases;
  for (const auto& [weight, bias, scale] : projections) {
    weights.push_back(scale.defined() ? scale.expand_as(bias).reshape({-1, 1}) * weight : weight);
    biases.push_back(bias.defined() ? bias.flatten()
                                    : torch::zeros({weight.size(0)}, weight.options()));
  }
  return {torch::cat(weights), torch::cat(biases)};
}

Tensor projected_together(const Tensor& h, const std::vector<ProjectionWeights>& projections) {
  const auto type = projections[0].weight.scalar_type();
  if (KernelChoice("projected_together", projections[0].weight, "packed weights, one product")
          .need(on_gpu(projections[0].weight), "a GPU")
          .need(PackedProjections::fit(projections), "few projections with bias, contiguous")
          .need(h.numel() > 0, "at least one value")
          .need(h.scalar_type() == product_type(type), "input in the type of products")
          .runs()) {
    const auto parameters = PackedProjections::parameters_of(projections);
    return FusedProjections::apply(h, at::TensorList(parameters),
                                   PackedProjections::scales_of(projections));
  }
  const auto [weight, bias] = side_by_side(projections);
  return linear_map_to(h, weight, bias, type);
}

}  // namespace geores
