#include "geores/ops/routed/forms/wide_form.h"

#include <string>
#include <utility>

#include "geores/kernels/routed/wide_post_norm.h"
#include "geores/kernels/routed/wide_streams.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

using namespace fused;
using NormKindOfRead = ReadNormSpec::Kind;

template <class T>
kernels::ReadNorm<T> read_norm(NormKindOfRead kind, double epsilon, const Tensor& weight) {
  return {.none = kind == NormKindOfRead::none,
          .norm = {.kind = kind == NormKindOfRead::layer ? kernels::NormKind::layer
                                                         : kernels::NormKind::rms,
                   .weight = values<T>(weight),
                   .bias = nullptr,
                   .eps = T(epsilon)}};
}

// Outputs: the sublayer's input, and the carried x. The incoming gradient of the carried x is
// unmixed (wide_form.h).
class FusedWideRead : public torch::autograd::Function<FusedWideRead> {
  struct Kept {
    Tensor res, read, x, weight, statistics, h;
    Tensor weight_slot;
    NormKindOfRead kind;
    double epsilon;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.res), f(s.read), f(s.x), f(s.weight), f(s.statistics), f(s.h);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& mixers, const Tensor& reads,
                             const Tensor& input, const OptionalTensor& weights,
                             NormKindOfRead kind, double epsilon) {
    const auto res = mixers.contiguous(), read = reads.contiguous(), x = input.contiguous(),
               weight = contiguous(weights);
    const auto h = for_product_of(x, {x.size(0), x.size(1), x.size(3)});
    const auto statistics = torch::empty({x.size(0), x.size(1), 2}, full_options(x));
    on_gpu_state(x, h, [&]<class T, class A, class S>(T, A, S, kernels::CudaStream cuda_stream) {
      kernels::wide_read_forward<T, A, S>(cuda_stream, values<T>(read), values<S>(x),
                                          read_norm<T>(kind, epsilon, weight), values<A>(h),
                                          statistics_in<T>(statistics), stream_shape(x));
    });
    save(context, Kept{.res = res,
                       .read = read,
                       .x = x,
                       .weight = weight,
                       .statistics = statistics,
                       .h = kind == NormKindOfRead::none ? Tensor() : h,
                       .weight_slot = gradient_slot(weight),
                       .kind = kind,
                       .epsilon = epsilon});
    return {h, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dh = gradients[0].contiguous(), dout = gradients[1].contiguous();
    const auto dres = torch::empty_like(s.res), dread = torch::empty_like(s.read),
               dx = torch::empty_like(s.x);
    const auto dweight = parameter_sum(s.weight, s.weight_slot);
    on_gpu_state(s.x, dh, [&]<class T, class A, class S>(T, A, S, kernels::CudaStream cuda_stream) {
      kernels::wide_read_backward<T, A, S>(cuda_stream,
                                           {.res = values<T>(s.res),
                                            .read = values<T>(s.read),
                                            .x = values<S>(s.x),
                                            .norm = read_norm<T>(s.kind, s.epsilon, s.weight),
                                            .statistics = statistics_in<T>(s.statistics),
                                            .h = values<A>(s.h),
                                            .dh = values<A>(dh),
                                            .dout = values<S>(dout),
                                            .dx = values<S>(dx),
                                            .dread = values<T>(dread),
                                            .dres = values<T>(dres),
                                            .dweight = values<T>(dweight.sum)},
                                           stream_shape(s.x));
    });
    return {dres, dread, dx, dweight.gradient, Tensor(), Tensor()};
  }
};

// The gradient of x is that of the result, unmixed, and res gets none (wide_form.h).
class FusedWideWrite : public torch::autograd::Function<FusedWideWrite> {
  struct Kept {
    Tensor write, y;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.write), f(s.y);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& res, const Tensor& input,
                        const Tensor& writes, const Tensor& branch) {
    const auto x = input.contiguous(), write = writes.contiguous(), y = branch.contiguous();
    auto out = torch::empty_like(x);
    on_gpu_state(x, y, [&]<class T, class A, class S>(T, A, S, kernels::CudaStream cuda_stream) {
      kernels::wide_write_forward<T, A, S>(cuda_stream, values<T>(res), values<S>(x),
                                           values<T>(write), values<A>(y), values<S>(out),
                                           stream_shape(x));
    });
    save(context, Kept{.write = write, .y = y});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto dwrite = torch::empty_like(s.write), dy = torch::empty_like(s.y);
    on_gpu_state(
        dout, s.y, [&]<class T, class A, class S>(T, A, S, kernels::CudaStream cuda_stream) {
          kernels::wide_write_backward<T, A, S>(cuda_stream, values<T>(s.write), values<A>(s.y),
                                                values<S>(dout), values<T>(dwrite), values<A>(dy),
                                                stream_shape(dout));
        });
    return {Tensor(), dout, dwrite, dy};
  }
};

// The same with the norm of its result. Outputs: the state if requested, and the sum if a tensor is
// added. The gradient of x is that before the norm, unmixed.
class FusedWideWriteNorm : public torch::autograd::Function<FusedWideWriteNorm> {
  struct Kept {
    Tensor write, y, out, inverse;
    bool sums;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.write), f(s.y), f(s.out), f(s.inverse);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& res, const Tensor& input,
                             const Tensor& writes, const Tensor& branch,
                             const OptionalTensor& addeds, double epsilon, bool wants_state,
                             bool with_backward) {
    const auto x = input.contiguous(), write = writes.contiguous(), y = branch.contiguous(),
               added = contiguous(addeds);
    const auto buffer = [&](bool there) { return there ? torch::empty_like(x) : Tensor(); };
    const auto out = buffer(wants_state), sum = buffer(added.defined());
    const auto inverse =
        with_backward ? torch::empty({x.size(0), x.size(1)}, full_options(x)) : Tensor();
    on_gpu_state(x, y, [&]<class T, class A, class S>(T, A, S, kernels::CudaStream cuda_stream) {
      kernels::wide_write_norm_forward<T, A, S>(cuda_stream,
                                                {.res = values<T>(res),
                                                 .x = values<S>(x),
                                                 .write = values<T>(write),
                                                 .y = values<A>(y),
                                                 .eps = T(epsilon),
                                                 .added = values<S>(added),
                                                 .out = values<S>(out),
                                                 .sum = values<S>(sum),
                                                 .inverse = values<T>(inverse)},
                                                stream_shape(x));
    });
    if (with_backward)
      save(context,
           Kept{.write = write, .y = y, .out = out, .inverse = inverse, .sums = sum.defined()});
    context->set_materialize_grads(false);  // the state and the sum are rarely both used
    tensor_list outputs;
    for (const auto& output : {out, sum})
      if (output.defined()) outputs.push_back(output);
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dsum = s.sums ? gradients[1] : Tensor();
    tensor_list result(8);
    if (!gradients[0].defined() && !dsum.defined()) return result;
    const auto dout = (!dsum.defined()          ? gradients[0]
                       : gradients[0].defined() ? gradients[0] + dsum
                                                : dsum)
                          .contiguous();
    const auto dwrite = torch::empty_like(s.write), dy = torch::empty_like(s.y),
               dv = torch::empty_like(s.out);
    on_gpu_state(dout, s.y,
                 [&]<class T, class A, class S>(T, A, S, kernels::CudaStream cuda_stream) {
                   kernels::wide_write_norm_backward<T, A, S>(cuda_stream,
                                                              {.write = values<T>(s.write),
                                                               .y = values<A>(s.y),
                                                               .out = values<S>(s.out),
                                                               .inverse = values<T>(s.inverse),
                                                               .dout = values<S>(dout),
                                                               .dv = values<S>(dv),
                                                               .dwrite = values<T>(dwrite),
                                                               .dy = values<A>(dy)},
                                                              stream_shape(dout));
                 });
    result[1] = dv, result[2] = dwrite, result[3] = dy, result[4] = dsum;
    return result;
  }
};

bool fits_post_norm(const Tensor& x) {
  const auto n = x.size(2), d = x.size(3);
  return x.scalar_type() == torch::kFloat64 ? kernels::fits_wide_post_norm<double>(n, d)
                                            : kernels::fits_wide_post_norm<float>(n, d);
}

}  // namespace

bool WideForm::takes_half(int64_t n, int64_t d) {
  return kernels::kHasCuda && execution().form == Form::fused && kernels::is_wide_stream_count(n) &&
         d <= kernels::kMostWideValues;
}

bool WideForm::fits(const Tensor& x) {
  static const auto count = numbers_that(kernels::is_wide_stream_count) + " streams",
                    width = "streams of at most " + std::to_string(kernels::kMostWideValues) +
                            " values";
  if (!on_gpu(x)) return false;
  return KernelChoice::state("wide_streams", x, "two kernels each way")
      .need(x.numel() > 0, "at least one value")
      .need(kernels::is_wide_stream_count(x.size(2)), count.c_str())
      .need(x.size(3) <= kernels::kMostWideValues, width.c_str())
      .runs();
}

WideForm::WideForm(const Routes& routes, const Tensor& read, const Tensor& x,
                   const ReadNormSpec& norm)
    : RoutedForm({}, {}, routes) {
  routes_.res = routes.res.contiguous();
  const auto outputs = FusedWideRead::apply(
      routes_.res, read, x, maybe(norm.weight), norm.kind,
      norm.kind == NormKindOfRead::rms ? rms_epsilon(norm.epsilon) : norm.epsilon);
  read_ = outputs[0];
  state_ = outputs[1];
  routes_.res = routes_.res.detach();  // its gradient is that of the read
}

// A sublayer may return the type of products or that of the state.
Tensor WideForm::branch(const Tensor& y) const {
  return y.scalar_type() == read_.scalar_type() ? y : y.to(state_.scalar_type());
}

Tensor WideForm::write(const Tensor& y) const {
  return FusedWideWrite::apply(routes_.res, state_, routes_.write, branch(y));
}

PostNormed WideForm::write_normalized(const Tensor& y, const PostNorm& norm) const {
  const auto& added = norm.added;
  if (!KernelChoice::state("write_and_norm", state_, "one kernel each way")
           .need(fits_post_norm(state_), "four tokens in 224 KiB")
           .need(!added.defined() || added.scalar_type() == state_.scalar_type(),
                 "an added tensor of the same type")
           .runs())
    return post_norm_of_tokens(write(y), norm);
  const bool learns = needs_gradient(state_, routes_.write, y, added),
             keeps = norm.keeps_state || learns || !added.defined();
  const auto outputs =
      FusedWideWriteNorm::apply(routes_.res, state_, routes_.write, branch(y), maybe(added),
                                rms_epsilon(norm.epsilon), keeps, learns);
  return {.state = keeps ? outputs[0] : Tensor(), .next = outputs.back(), .product = {}};
}

std::unique_ptr<RoutedForm> wide_form(const RoutedInput& in, const RoutedSpec& spec) {
  const bool passes = std::holds_alternative<StreamRouting>(spec.routing);
  if (spec.tiles != 1 || (passes && spec.read_norm.kind != NormKindOfRead::none)) return nullptr;
  if (!WideForm::fits(split_streams(in.x, spec.streams))) return nullptr;
  auto [routes, x] = routes_of(in, spec);
  if (passes)
    routes.res = identity_like(routes.read, spec.streams).expand({x.size(0), x.size(1), -1, -1});
  return std::make_unique<WideForm>(routes, in.read_of(routes), x, spec.read_norm);
}

}  // namespace geores
