#include "geores/ops/projections.h"

#include "geores/kernels/projections.h"
#include "geores/ops/fused.h"
#include "geores/ops/linear.h"
#include "geores/ops/products.h"

namespace geores {
namespace {

using namespace fused;

// Weight, bias and, where it has one, scale of each projection, one after the other.
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

ConvertedAndSummed converted_and_summed(const Tensor& gradient, torch::ScalarType type) {
  if (!runs_on_gpu(gradient) || gradient.size(1) > kernels::kMostSummedColumns)
    return {gradient.to(type), gradient.sum(0)};
  const auto dy = gradient.contiguous();
  ConvertedAndSummed result{torch::empty(dy.sizes(), dy.options().dtype(type)),
                            torch::empty({dy.size(1)}, dy.options())};
  on_gpu(dy, result.converted, [&]<class T, class A>(T, A, kernels::Stream stream) {
    kernels::convert_and_sum(stream, values<T>(dy), values<A>(result.converted),
                             values<T>(result.sum), dy.size(0), dy.size(1));
  });
  return result;
}

namespace {

// On a GPU.
class FusedProjections : public torch::autograd::Function<FusedProjections> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& h, at::TensorList parameters,
                        const std::vector<int64_t>& has_scale) {
    const auto in = h.reshape({-1, h.size(-1)}).contiguous();
    const auto& like = parameters[0];
    int64_t rows = 0;
    for (size_t i = 0, next = 0; i < has_scale.size(); next += has_scale[i++] ? 3 : 2)
      rows += parameters[next].size(0);
    const auto packed = torch::empty({rows, in.size(1)}, in.options());
    const auto bias = torch::empty({rows}, like.options());
    on_gpu(like, in, [&]<class T, class A>(T, A, kernels::Stream stream) {
      kernels::pack_projections(stream, arrays_of<const T>(parameters, has_scale, in.size(1)),
                                values<A>(packed), values<T>(bias));
    });
    tensor_list saved = {in, packed};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    context->saved_data["scales"] = has_scale;
    auto shape = h.sizes().vec();
    shape.back() = rows;
    return multiply(in, packed.t(), like.scalar_type()).add_(bias).view(shape);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &packed = saved[1];
    const at::TensorList parameters(saved.data() + 2, saved.size() - 2);
    const auto has_scale = context->saved_data["scales"].toIntVector();
    const auto type = parameters[0].scalar_type();
    const auto dy = gradients[0].reshape({-1, packed.size(0)});
    const auto [half, dbias] = converted_and_summed(dy, in.scalar_type());
    const auto dpacked = multiply(half.t(), in, type);

    tensor_list result = {multiply(half, packed, in.scalar_type())};
    auto shape = gradients[0].sizes().vec();
    shape.back() = in.size(1);
    result[0] = result[0].view(shape);
    int64_t row = 0;
    for (size_t i = 0, next = 0; i < has_scale.size(); ++i) {
      const auto rows = parameters[next].size(0);
      result.push_back(torch::empty_like(parameters[next++]));
      result.push_back(dbias.slice(0, row, row + rows).view(parameters[next++].sizes()));
      if (has_scale[i]) result.push_back(torch::empty_like(parameters[next++]));
      row += rows;
    }
    on_gpu(parameters[0], [&]<class T>(T, kernels::Stream stream) {
      kernels::unpack_projection_gradients(
          stream, arrays_of<const T>(parameters, has_scale, in.size(1)), values<T>(dpacked),
          arrays_of<T>(at::TensorList(result).slice(1), has_scale, in.size(1)));
    });
    result.push_back(Tensor());
    return result;
  }
};

class FusedAddToEach : public torch::autograd::Function<FusedAddToEach> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& x, const Tensor& rows) { return x + rows; }

  static tensor_list backward(AutogradContext*, tensor_list gradients) {
    const auto d = gradients[0].contiguous();
    auto sums = torch::empty({d.size(1), d.size(2)}, d.options());
    on_gpu(d, [&]<class T>(T, kernels::Stream stream) {
      kernels::sum_rows(stream, values<T>(d), values<T>(sums), d.size(0), sums.numel());
    });
    return {gradients[0], sums};
  }
};

bool fits_gpu(const Tensor& h, const std::vector<ProjectionWeights>& projections) {
  if (!runs_on_gpu(projections[0].weight) || h.numel() == 0) return false;
  if (projections.size() > kernels::kMostProjections) return false;
  for (const auto& p : projections) {
    if (!p.weight.is_contiguous() || !p.bias.is_contiguous()) return false;
    if (p.scale.defined() && (!p.scale.is_contiguous() || p.bias.numel() % p.scale.numel() != 0))
      return false;
  }
  return h.scalar_type() == product_type(projections[0].weight.scalar_type());
}

}  // namespace

Tensor add_to_each(const Tensor& x, const Tensor& rows) {
  return runs_on_gpu(x) && x.dim() == 3 && rows.dim() == 2 ? FusedAddToEach::apply(x, rows)
                                                           : x + rows;
}

Tensor projected_together(const Tensor& h, const std::vector<ProjectionWeights>& projections) {
  std::vector<Tensor> weights, biases, parameters;
  std::vector<int64_t> has_scale;
  if (fits_gpu(h, projections)) {
    for (const auto& p : projections) {
      parameters.insert(parameters.end(), {p.weight, p.bias});
      if (p.scale.defined()) parameters.push_back(p.scale);
      has_scale.push_back(p.scale.defined());
    }
    return FusedProjections::apply(h, at::TensorList(parameters), has_scale);
  }
  for (const auto& [weight, bias, scale] : projections) {
    weights.push_back(scale.defined() ? scale.expand_as(bias).reshape({-1, 1}) * weight : weight);
    biases.push_back(bias.flatten());
  }
  return linear_map_to(h, torch::cat(weights), torch::cat(biases), weights[0].scalar_type());
}

}  // namespace geores
