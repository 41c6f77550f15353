#include "geores/ops/routed/delta.h"

#include "geores/kernels/routed/delta_streams.h"
#include "geores/kernels/routed/wide_streams.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/run/choice.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

bool delta_runs_fused(const char* operation, const Tensor& x) {
  static const auto count = numbers_that(kernels::is_wide_stream_count) + " streams";
  const bool fits = x.dim() == 4 && x.numel() > 0;
  return Choice(operation, x)
      .need(x.is_cuda(), "a GPU")
      .need(fits, "a state (B, T, n, d) with at least one value")
      .need(fits && kernels::is_wide_stream_count(x.size(2)), count.c_str())
      .runs();
}

// Outputs: the sum, and x. The kernels read with weights of each token.
class FusedStreamSum : public torch::autograd::Function<FusedStreamSum> {
  struct Kept {
    Tensor read, x;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.read), f(s.x);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& weight, const Tensor& input) {
    const auto x = input.contiguous(),
               read = weight.expand({x.size(0), x.size(1), x.size(2)}).contiguous();
    const auto sum = torch::empty({x.size(0), x.size(1), x.size(3)}, x.options());
    on_gpu(x, x, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::wide_read_forward<T, A>(cuda_stream, values<T>(read), values<T>(x), {.none = true},
                                       values<A>(sum), nullptr, stream_shape(x));
    });
    save(context, Kept{.read = read, .x = x});
    return {sum, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dsum = gradients[0].contiguous(), dskip = gradients[1].contiguous();
    const auto n = s.x.size(2);
    const auto pass = identity_like(s.x, n).expand({s.x.size(0), s.x.size(1), n, n}).contiguous();
    const auto dx = torch::empty_like(s.x), dread = torch::empty_like(s.read),
               dpass = torch::empty_like(pass);
    on_gpu(s.x, s.x, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::wide_read_backward<T, A>(cuda_stream,
                                        {.res = values<T>(pass),
                                         .read = values<T>(s.read),
                                         .x = values<T>(s.x),
                                         .norm = {.none = true},
                                         .statistics = nullptr,
                                         .h = nullptr,
                                         .dh = values<A>(dsum),
                                         .dout = values<T>(dskip),
                                         .dx = values<T>(dx),
                                         .dread = values<T>(dread),
                                         .dres = values<T>(dpass),
                                         .dweight = nullptr},
                                        stream_shape(s.x));
    });
    return {dread.flatten(0, 1).sum(0), dx};
  }
};

class FusedDeltaWrite : public torch::autograd::Function<FusedDeltaWrite> {
  struct Kept {
    Tensor x, y, beta, v;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.y), f(s.beta), f(s.v);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& branch,
                        const Tensor& strengths, const Tensor& written) {
    const auto x = input.contiguous(), y = branch.contiguous(), beta = strengths.contiguous(),
               v = written.contiguous();
    const auto out = torch::empty_like(x);
    on_gpu(x, y, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::delta_streams_forward<T, A>(cuda_stream, values<T>(x), values<A>(y), values<T>(beta),
                                           values<T>(v), values<T>(out), stream_shape(x));
    });
    save(context, Kept{.x = x, .y = y, .beta = beta, .v = v});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto dx = torch::empty_like(s.x), dy = torch::empty_like(s.y),
               dbeta = torch::empty_like(s.beta), dv = torch::empty_like(s.v);
    on_gpu(s.x, s.y, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::delta_streams_backward<T, A>(cuda_stream, values<T>(s.x), values<A>(s.y),
                                            values<T>(s.beta), values<T>(s.v), values<T>(dout),
                                            values<T>(dx), values<A>(dy), values<T>(dbeta),
                                            values<T>(dv), stream_shape(s.x));
    });
    return {dx, dy, dbeta, dv};
  }
};

}  // namespace

std::optional<StreamSum> fused_stream_sum(const Tensor& weight, const Tensor& x) {
  if (!delta_runs_fused("stream_sum", x)) return std::nullopt;
  const auto outputs = FusedStreamSum::apply(weight, x);
  return StreamSum{.read = outputs[0], .skip = outputs[1]};
}

std::optional<Tensor> fused_delta_write(const Tensor& x, const Tensor& y, const Tensor& beta,
                                        const Tensor& v) {
  if (!delta_runs_fused("delta_write", x)) return std::nullopt;
  return FusedDeltaWrite::apply(x, y, beta, v);
}

}  // namespace geores
