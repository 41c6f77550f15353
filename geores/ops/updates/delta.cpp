#include "geores/ops/updates/delta.h"

#include <utility>

#include "geores/base/error.h"
#include "geores/kernels/routed/wide_streams.h"
#include "geores/kernels/sizes.h"
#include "geores/kernels/updates/delta_read.h"
#include "geores/kernels/updates/delta_streams.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;
using LeftOfDelta = std::shared_ptr<DeltaStreams::Left>;

// Outputs: the sum, and the carried x.
class FusedStreamSum : public torch::autograd::Function<FusedStreamSum> {
  struct Kept {
    Tensor weight, x;
    Tensor weight_slot;
    LeftOfDelta left;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.weight), f(s.x);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& weights, const Tensor& input,
                             const LeftOfDelta& left) {
    const auto x = input.contiguous(), weight = weights.contiguous();
    const auto sum = torch::empty({x.size(0), x.size(1), x.size(3)}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::stream_sum_forward(cuda_stream, values<T>(weight), values<T>(x), values<T>(sum),
                                  stream_shape(x));
    });
    save(context,
         Kept{.weight = weight, .x = x, .weight_slot = gradient_slot(weight), .left = left});
    context->set_materialize_grads(false);  // avoids zeros of the state's size for an unused carry
    return {sum, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = contiguous(gradients[1]);
    const auto dsum = gradients[0].defined()
                          ? gradients[0].contiguous()
                          : torch::zeros({s.x.size(0), s.x.size(1), s.x.size(3)}, s.x.options());
    const auto [y, dl, written] = std::exchange(*s.left, {});
    const auto dx = torch::empty_like(s.x);
    const auto dweight = parameter_sum(s.weight, s.weight_slot);
    on_gpu(s.x, y.defined() ? y : s.x,
           [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
             kernels::stream_sum_backward<T, A>(cuda_stream,
                                                {.weight = values<T>(s.weight),
                                                 .x = values<T>(s.x),
                                                 .dread = values<T>(dsum),
                                                 .dout = values<T>(dout),
                                                 .y = values<A>(y),
                                                 .dl = values<T>(dl),
                                                 .dx = values<T>(dx),
                                                 .dweight = values<T>(dweight.sum)},
                                                stream_shape(s.x));
           });
    return {dweight.gradient, dx, Tensor()};
  }
};

template <class T>
kernels::DeltaReadParameters<T> reading_in(const std::vector<Tensor>& p) {
  using Value = std::remove_const_t<T>;
  return {values<Value>(p[0]), values<Value>(p[1]), values<Value>(p[2]),
          values<Value>(p[3]), values<Value>(p[4]), values<Value>(p[5])};
}

// Outputs: the sublayer's input, l, and the carried x. Parameters in the order of Reading.
class FusedDeltaRead : public torch::autograd::Function<FusedDeltaRead> {
  struct Kept {
    Tensor x, h, statistics;
    KeptParameters parameters;
    LeftOfDelta left;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.h), f(s.statistics), f(s.parameters.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             at::TensorList parameters, const LeftOfDelta& left) {
    const auto x = input.contiguous();
    const auto batch = x.size(0), length = x.size(1), n = x.size(2), d = x.size(3);
    const auto h = for_product_of(x, {batch, length, d});
    const auto l = torch::empty({batch, length, 1 + n}, x.options()),
               statistics = torch::empty({batch, length, 2}, x.options());
    on_gpu(x, h, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::delta_read_forward<T, A>(cuda_stream, reading_in<const T>(parameters.vec()),
                                        values<T>(x), values<A>(h), statistics_in<T>(statistics),
                                        values<T>(l), stream_shape(x));
    });
    save(context, Kept{.x = x,
                       .h = h,
                       .statistics = statistics,
                       .parameters = KeptParameters::of(parameters),
                       .left = left});
    context->set_materialize_grads(false);  // avoids zeros of the state's size for an unused carry
    return {h, l, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto [y, dv, written] = std::exchange(*s.left, {});
    // A sublayer may return another type than it reads.
    const auto type =
        y.defined() && y.scalar_type() != s.h.scalar_type() ? s.x.scalar_type() : s.h.scalar_type();
    const auto as = [&](const Tensor& tensor) { return tensor.to(type); };
    const auto h = as(s.h),
               dh = gradients[0].defined() ? as(gradients[0]).contiguous() : torch::zeros_like(h),
               branch = y.defined() ? as(y) : y, dout = contiguous(gradients[2]);
    const auto dl = gradients[1].defined()
                        ? gradients[1].contiguous()
                        : torch::zeros({s.x.size(0), s.x.size(1), 1 + s.x.size(2)}, s.x.options());
    const auto dx = torch::empty_like(s.x);
    const ParameterSums sums(s.parameters);
    on_gpu(s.x, h, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::delta_read_backward<T, A>(cuda_stream,
                                         {.parameters = reading_in<const T>(s.parameters.values),
                                          .x = values<T>(s.x),
                                          .statistics = statistics_in<T>(s.statistics),
                                          .h = values<A>(h),
                                          .dh = values<A>(dh),
                                          .dl = values<T>(dl),
                                          .dout = values<T>(dout),
                                          .y = values<A>(branch),
                                          .dv = values<T>(dv),
                                          .dx = values<T>(dx),
                                          .gradients = reading_in<T>(sums.sums)},
                                         stream_shape(s.x));
    });
    tensor_list result = {dx};
    result.insert(result.end(), sums.gradients.begin(), sums.gradients.end());
    result.push_back(Tensor());
    return result;
  }
};

// The gradient of x is that of the result; FusedStreamSum computes the rest.
class FusedDeltaWrite : public torch::autograd::Function<FusedDeltaWrite> {
  struct Kept {
    Tensor x, y, l;
    LeftOfDelta left;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.y), f(s.l);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& branch,
                        const Tensor& logits, const LeftOfDelta& left) {
    const auto x = input.contiguous(), y = branch.contiguous(), l = logits.contiguous();
    const auto out = torch::empty_like(x);
    on_gpu(x, y, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::delta_streams_forward<T, A>(cuda_stream, values<T>(x), values<A>(y), values<T>(l),
                                           values<T>(out), stream_shape(x));
    });
    save(context, Kept{.x = x, .y = y, .l = l, .left = left});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto dy = torch::empty_like(s.y), dl = torch::empty_like(s.l);
    on_gpu(s.x, s.y, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::delta_streams_backward<T, A>(cuda_stream, values<T>(s.x), values<A>(s.y),
                                            values<T>(s.l), values<T>(dout), values<A>(dy),
                                            values<T>(dl), stream_shape(s.x));
    });
    s.left->y = s.y;
    s.left->dl = dl;
    return {dout, dy, dl, Tensor()};
  }
};

}  // namespace

DeltaStreams::DeltaStreams(Tensor read, Tensor l, Tensor carried, std::shared_ptr<Left> left)
    : read_(std::move(read)),
      l_(std::move(l)),
      carried_(std::move(carried)),
      left_(std::move(left)) {}

std::optional<DeltaStreams> DeltaStreams::make(const Reading& reading, const Tensor& x) {
  static const auto count = numbers_that(kernels::is_wide_stream_count) + " streams",
                    width =
                        "streams of at most " + std::to_string(kernels::kMostDeltaRead) + " values";
  const auto& [weight, norm_weight, beta, beta_bias, value, value_bias] = reading;
  const std::vector<Tensor> parameters = {weight, norm_weight, beta, beta_bias, value, value_bias};
  bool plain = true;
  for (const auto& parameter : parameters)
    plain = plain && parameter.is_contiguous() && parameter.scalar_type() == x.scalar_type();
  const bool fits = x.dim() == 4 && x.numel() > 0;
  if (!KernelChoice("delta_read", x, "one kernel each way")
           .need(on_gpu(x), "a GPU")
           .need(fits, "a state (B, T, n, d) with at least one value")
           .need(fits && kernels::is_wide_stream_count(x.size(2)), count.c_str())
           .need(fits && x.size(3) <= kernels::kMostDeltaRead, width.c_str())
           .need(plain, "contiguous parameters of the state's type")
           .runs())
    return std::nullopt;
  const auto left = std::make_shared<Left>();
  const auto outputs = FusedDeltaRead::apply(x, at::TensorList(parameters), left);
  return DeltaStreams(outputs[0], outputs[1], outputs[2], left);
}

std::optional<DeltaStreams> DeltaStreams::make(const Tensor& weight, const Tensor& x) {
  static const auto count = numbers_that(kernels::is_wide_stream_count) + " streams";
  const bool fits = x.dim() == 4 && x.numel() > 0;
  if (!KernelChoice("delta_streams", x, "two kernels each way")
           .need(on_gpu(x), "a GPU")
           .need(fits, "a state (B, T, n, d) with at least one value")
           .need(fits && kernels::is_wide_stream_count(x.size(2)), count.c_str())
           .runs())
    return std::nullopt;
  const auto left = std::make_shared<Left>();
  const auto outputs = FusedStreamSum::apply(weight, x, left);
  return DeltaStreams(outputs[0], Tensor(), outputs[1], left);
}

Tensor DeltaStreams::write(const Tensor& y, const Tensor& l) {
  require(!std::exchange(left_->written, true), "delta_streams", "a state is written to twice");
  return FusedDeltaWrite::apply(carried_, y, l, left_);
}

}  // namespace geores
