#include "geores/ops/routed/route_maps.h"

#include "geores/kernels/routed/route_maps.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

kernels::MixerShape route_shape(const Tensor& raw, int64_t n) {
  return {.tokens = raw.size(0) * raw.size(1), .n = n};
}

// The parameters in the order of TanhRoutes.
template <class T>
kernels::TanhRoutes<T> tanh_arrays(const std::vector<Tensor>& p) {
  using Value = std::remove_const_t<T>;
  return {.scale = values<Value>(p[0]),
          .post_scale = values<Value>(p[1]),
          .pre = values<Value>(p[2]),
          .res = values<Value>(p[3]),
          .post = values<Value>(p[4])};
}

// The kernels of a GPU. Outputs: res, read, write.
class FusedTanhRoutes : public torch::autograd::Function<FusedTanhRoutes> {
  struct Kept {
    Tensor raw;
    KeptParameters parameters;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.raw), f(s.parameters.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             at::TensorList parameters) {
    const auto raw = input.contiguous();
    const auto batch = raw.size(0), length = raw.size(1), n = raw.size(2);
    const auto res = torch::empty({batch, length, n, n}, raw.options()),
               read = torch::empty({batch, length, n}, raw.options()),
               write = torch::empty_like(read);
    on_gpu(raw, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::tanh_routes_forward<T>(cuda_stream, values<T>(raw),
                                      tanh_arrays<const T>(parameters.vec()), values<T>(res),
                                      values<T>(read), values<T>(write), route_shape(raw, n));
    });
    save(context, Kept{.raw = raw, .parameters = KeptParameters::of(parameters)});
    return {res, read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dres = gradients[0].contiguous(), dread = gradients[1].contiguous(),
               dwrite = gradients[2].contiguous(), draw = torch::empty_like(s.raw);
    const ParameterSums sums(s.parameters);
    on_gpu(s.raw, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::tanh_routes_backward<T>(
          cuda_stream, values<T>(s.raw), tanh_arrays<const T>(s.parameters.values), values<T>(dres),
          values<T>(dread), values<T>(dwrite), values<T>(draw), tanh_arrays<T>(sums.sums),
          route_shape(s.raw, s.raw.size(2)));
    });
    tensor_list result = {draw};
    result.insert(result.end(), sums.gradients.begin(), sums.gradients.end());
    return result;
  }
};

// The kernels of a GPU. Outputs: read, write, others.
class FusedSigmoidRoutes : public torch::autograd::Function<FusedSigmoidRoutes> {
  struct Kept {
    Tensor raw;
    int64_t n;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.raw);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, int64_t n,
                             double offset) {
    const auto raw = input.contiguous();
    const auto batch = raw.size(0), length = raw.size(1), rest = raw.size(2) - 2 * n;
    const auto read = torch::empty({batch, length, n}, raw.options()),
               write = torch::empty_like(read),
               others = torch::empty({batch, length, rest}, raw.options());
    on_gpu(raw, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::sigmoid_routes_forward<T>(cuda_stream, values<T>(raw), T(offset), values<T>(read),
                                         values<T>(write), values<T>(others), rest,
                                         route_shape(raw, n));
    });
    save(context, Kept{.raw = raw, .n = n});
    return {read, write, others};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto [raw, n] = saved<Kept>(context);
    const auto dread = gradients[0].contiguous(), dwrite = gradients[1].contiguous(),
               dothers = gradients[2].contiguous(), draw = torch::empty_like(raw);
    on_gpu(raw, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::sigmoid_routes_backward<T>(cuda_stream, values<T>(raw), values<T>(dread),
                                          values<T>(dwrite), values<T>(dothers), values<T>(draw),
                                          raw.size(2) - 2 * n, route_shape(raw, n));
    });
    return {draw, Tensor(), Tensor()};
  }
};

}  // namespace

Routes tanh_routes(const Tensor& raw, const TanhRoutes& p) {
  const auto n = raw.size(-2);
  const std::vector<Tensor> parameters = {p.scale, p.post_scale, p.pre, p.res, p.post};
  bool plain = true;
  for (const auto& parameter : parameters)
    plain = plain && parameter.is_contiguous() && parameter.scalar_type() == raw.scalar_type();
  if (KernelChoice("tanh_routes", raw)
          .need(on_gpu(raw), "a GPU")
          .need(raw.dim() == 4 && raw.numel() > 0, "at least one value")
          .need(kernels::fits_tanh_routes(n), "at most 15 streams")
          .need(plain, "contiguous parameters of the state's type")
          .runs()) {
    const auto outputs = FusedTanhRoutes::apply(raw, at::TensorList(parameters));
    return {.res = outputs[0], .read = outputs[1], .write = outputs[2]};
  }
  const auto turned = torch::tanh(raw);
  return {.res = p.scale * turned.slice(-1, 1, 1 + n).transpose(-1, -2) + p.res,
          .read = p.scale * turned.select(-1, 0) + p.pre,
          .write = p.post_scale * turned.select(-1, 1 + n) + p.post};
}

SigmoidRoutes sigmoid_routes(const Tensor& raw, int64_t n, double offset) {
  if (KernelChoice("sigmoid_routes", raw)
          .need(on_gpu(raw), "a GPU")
          .need(raw.dim() == 3 && raw.numel() > 0, "at least one value")
          .runs()) {
    const auto outputs = FusedSigmoidRoutes::apply(raw, n, offset);
    return {.read = outputs[0], .write = outputs[1], .others = outputs[2]};
  }
  const auto parts = raw.split_with_sizes({n, n, raw.size(-1) - 2 * n}, -1);
  const auto read = torch::sigmoid(parts[0]);
  return {.read = offset != 0 ? read + offset : read,
          .write = 2 * torch::sigmoid(parts[1]),
          .others = parts[2]};
}

}  // namespace geores
