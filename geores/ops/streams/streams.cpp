#include "geores/ops/streams/streams.h"

#include <vector>

#include "geores/base/error.h"
#include "geores/kernels/routed/wide_streams.h"
#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/streams.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: M x and LN(M x).
class FusedMixNorm : public torch::autograd::Function<FusedMixNorm> {
  struct Kept {
    Tensor m, x, weight, statistics;
    Tensor weight_slot;
    bool has_bias;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.m), f(s.x), f(s.weight), f(s.statistics);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& operators, const Tensor& input,
                             const Tensor& weights, const OptionalTensor& biases) {
    const auto m = operators.contiguous(), x = input.contiguous(), weight = weights.contiguous(),
               bias = contiguous(biases);
    auto g = torch::empty_like(x), h = for_product_of(x, x.sizes());
    auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on(x, h, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::mix_norm_forward<T>(cuda_stream..., values<T>(m), values<T>(x),
                                   {.weight = values<T>(weight), .bias = values<T>(bias)},
                                   values<T>(g), values<A>(h), statistics_in<T>(statistics),
                                   m.size(0) * m.size(1), split_shape(x, m.size(-1)));
    });
    save(context, Kept{.m = m,
                       .x = x,
                       .weight = weight,
                       .statistics = statistics,
                       .weight_slot = gradient_slot(weight),
                       .has_bias = bias.defined()});
    return {g, h};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dg = contiguous(gradients[0]), dh = contiguous(gradients[1]);
    const auto dx = torch::empty_like(s.x), dm = torch::empty_like(s.m);
    const auto dweight = parameter_sum(s.weight, s.weight_slot);
    const auto dbias = s.has_bias ? torch::zeros_like(s.weight) : Tensor();
    on(s.x, dh.defined() ? dh : s.x, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::mix_norm_backward<T>(cuda_stream..., values<T>(s.m), values<T>(s.x),
                                    {.weight = values<T>(s.weight)}, statistics_in<T>(s.statistics),
                                    values<T>(dg), values<A>(dh), values<T>(dx), values<T>(dm),
                                    values<T>(dweight.sum), values<T>(dbias),
                                    s.m.size(0) * s.m.size(1), split_shape(s.x, s.m.size(-1)));
    });
    return {dm, dx, dweight.gradient, dbias};
  }
};

// Outputs: LN of the collected streams, and x.
class FusedCollectNorm : public torch::autograd::Function<FusedCollectNorm> {
  struct Kept {
    Tensor read, x, weight, statistics;
    Tensor weight_slot;
    int64_t tiles;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.read), f(s.x), f(s.weight), f(s.statistics);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& reads, const Tensor& input,
                             const Tensor& weights, int64_t tiles) {
    const auto read = reads.contiguous(), x = input.contiguous(), weight = weights.contiguous();
    auto h = for_product_of(x, {x.size(0), x.size(1), tiles * x.size(3)});
    auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on(x, h, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::collect_norm_forward<T>(cuda_stream..., values<T>(read), values<T>(x),
                                       {.weight = values<T>(weight)}, tiles, values<A>(h),
                                       statistics_in<T>(statistics), stream_shape(x));
    });
    save(context, Kept{.read = read,
                       .x = x,
                       .weight = weight,
                       .statistics = statistics,
                       .weight_slot = gradient_slot(weight),
                       .tiles = tiles});
    return {h, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dh = gradients[0].contiguous(), skip = contiguous(gradients[1]);
    const auto dx = torch::empty_like(s.x), dread = torch::empty_like(s.read);
    const auto dweight = parameter_sum(s.weight, s.weight_slot);
    on(s.x, dh, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::collect_norm_backward<T>(
          cuda_stream..., values<T>(s.read), values<T>(s.x), {.weight = values<T>(s.weight)},
          s.tiles, statistics_in<T>(s.statistics), values<A>(dh), values<T>(skip), values<T>(dx),
          values<T>(dread), values<T>(dweight.sum), stream_shape(s.x));
    });
    return {dread, dx, dweight.gradient, Tensor()};
  }
};

class FusedMixWrite : public torch::autograd::Function<FusedMixWrite> {
  struct Kept {
    Tensor res, x, write, branch;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.res), f(s.x), f(s.write), f(s.branch);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& mixers, const Tensor& input,
                        const Tensor& writes, const Tensor& branches) {
    const auto res = mixers.contiguous(), x = input.contiguous(), write = writes.contiguous(),
               branch = branches.contiguous();
    auto out = torch::empty_like(x);
    on(x, branch, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::mix_write_forward(cuda_stream..., values<T>(res), values<T>(x), values<T>(write),
                                 values<A>(branch), branch_kind(branch), values<T>(out),
                                 stream_shape(x));
    });
    save(context, Kept{.res = res, .x = x, .write = write, .branch = branch});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto dres = torch::empty_like(s.res), dx = torch::empty_like(s.x),
               dwrite = torch::empty_like(s.write), dbranch = torch::empty_like(s.branch);
    on(s.x, s.branch, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::mix_write_backward(cuda_stream..., values<T>(s.res), values<T>(s.x),
                                  values<T>(s.write), values<A>(s.branch), branch_kind(s.branch),
                                  values<T>(dout), values<T>(dres), values<T>(dx),
                                  values<T>(dwrite), values<A>(dbranch), stream_shape(s.x));
    });
    return {dres, dx, dwrite, dbranch};
  }
};

// An operator for each token.
class FusedMix : public torch::autograd::Function<FusedMix> {
  struct Kept {
    Tensor m, x;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.m), f(s.x);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& operators, const Tensor& input) {
    const auto m = operators.contiguous(), x = input.contiguous();
    auto out = torch::empty_like(x);
    if (on_gpu(x))
      on_gpu_state(x, [&]<class T, class S>(T, S, kernels::CudaStream cuda_stream) {
        kernels::wide_write_forward<T, S, S>(cuda_stream, values<T>(m), values<S>(x), nullptr,
                                             nullptr, values<S>(out), stream_shape(x));
      });
    else
      for_type_of(x, [&]<class T>(T) {
        kernels::mix_norm_forward<T>(values<T>(m), values<T>(x), {}, values<T>(out), nullptr,
                                     nullptr, stream_shape(x).tokens, stream_shape(x));
      });
    save(context, Kept{.m = m, .x = x});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto dm = torch::empty_like(s.m), dx = torch::empty_like(s.x);
    if (!on_gpu(s.x)) {
      for_type_of(s.x, [&]<class T>(T) {
        kernels::mix_norm_backward<T>(values<T>(s.m), values<T>(s.x), {}, nullptr, values<T>(dout),
                                      nullptr, values<T>(dx), values<T>(dm), nullptr, nullptr,
                                      stream_shape(s.x).tokens, stream_shape(s.x));
      });
      return {dm, dx};
    }
    on_gpu_state(s.x, [&]<class T, class S>(T, S, kernels::CudaStream cuda_stream) {
      kernels::wide_read_backward<T, S, S>(cuda_stream,
                                           {.res = values<T>(s.m),
                                            .read = nullptr,
                                            .x = values<S>(s.x),
                                            .norm = {.none = true},
                                            .statistics = nullptr,
                                            .h = nullptr,
                                            .dh = nullptr,
                                            .dout = values<S>(dout),
                                            .dx = values<S>(dx),
                                            .dread = nullptr,
                                            .dres = values<T>(dm),
                                            .dweight = nullptr},
                                           stream_shape(s.x));
    });
    return {dm, dx};
  }
};

// The kernels of a CPU.
class FusedCollect : public torch::autograd::Function<FusedCollect> {
  struct Kept {
    Tensor read, x;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.read), f(s.x);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& reads, const Tensor& input) {
    const auto read = reads.contiguous(), x = input.contiguous();
    auto c = torch::empty({x.size(0), x.size(1), x.size(3)}, x.options());
    for_type_of(x, [&]<class T>(T) {
      kernels::collect_forward(values<T>(read), values<T>(x), values<T>(c), stream_shape(x));
    });
    save(context, Kept{.read = read, .x = x});
    return c;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dc = gradients[0].contiguous();
    const auto dread = torch::empty_like(s.read), dx = torch::empty_like(s.x);
    for_type_of(s.x, [&]<class T>(T) {
      kernels::collect_backward(values<T>(s.read), values<T>(s.x), values<T>(dc), values<T>(dread),
                                values<T>(dx), stream_shape(s.x));
    });
    return {dread, dx};
  }
};

class FusedStreamEntropy : public torch::autograd::Function<FusedStreamEntropy> {
  struct Kept {
    Tensor x;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& streams) {
    const auto x = streams.contiguous();
    save(context, Kept{.x = x});
    auto entropy = torch::empty({x.size(0), x.size(1), 1}, x.options());
    on(x, [&]<class T>(T, auto... cuda_stream) {
      kernels::stream_entropy_forward(cuda_stream..., values<T>(x), values<T>(entropy),
                                      stream_shape(x));
    });
    return entropy;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto x = saved<Kept>(context).x, dentropy = gradients[0].contiguous();
    auto dx = torch::empty_like(x);
    on(x, [&]<class T>(T, auto... cuda_stream) {
      kernels::stream_entropy_backward(cuda_stream..., values<T>(x), values<T>(dentropy),
                                       values<T>(dx), stream_shape(x));
    });
    return {dx};
  }
};

// For x (B, T, n, d).
bool streams_run_fused(const char* operation, const Tensor& x) {
  return need_streams(KernelChoice(operation, x).need(x.numel() > 0, "at least one value"),
                      x.size(2), x.size(3))
      .runs();
}

}  // namespace

Tensor split_streams(const Tensor& x, int64_t n) {
  require(n >= 1 && x.size(-1) % n == 0, "split_streams", "width {} is not divisible by {} streams",
          x.size(-1), n);
  return x.unflatten(-1, std::vector<int64_t>{n, x.size(-1) / n});
}

Tensor join_streams(const Tensor& x) { return x.flatten(-2); }

Tensor mix_streams(const Tensor& m, const Tensor& x) {
  static const auto count = numbers_that(kernels::is_wide_stream_count) + " streams",
                    most = "at most " + std::to_string(kernels::kMostStreams) + " streams";
  const bool fits = m.dim() == 4 && x.dim() == 4 && m.size(0) == x.size(0) &&
                    m.size(1) == x.size(1) && m.size(3) == x.size(2);
  if (KernelChoice::state("mix_streams", x)
          .need(fits && x.numel() > 0, "an operator (n, n) for each token")
          .need_on_cpu(fits && x.size(2) <= kernels::kMostStreams, most.c_str())
          .need_on_gpu(fits && kernels::is_wide_stream_count(x.size(2)), count.c_str())
          .need_on_gpu(fits && x.size(3) <= kernels::kMostWideValues,
                       "streams of at most 4096 values")
          .need(m.scalar_type() == full_type(x.scalar_type()),
                "operators of the state's type, float32 with bfloat16")
          .runs())
    return FusedMix::apply(m, x);
  return m.matmul(x);
}

NormAndSkip mix_and_norm(const Tensor& m, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  const auto n = m.size(-1);
  const auto fits = m.dim() == 4 && x.dim() == 3 && m.size(0) == x.size(0) && x.size(2) % n == 0;
  if (need_any_streams(KernelChoice("mix_and_norm", x)
                           .need(fits, "operators (B, T', n, n) for streams (B, T, n·d)")
                           .need(x.numel() > 0, "at least one value"),
                       n, fits ? x.size(2) / n : 0, bias.defined())
          .runs()) {
    const auto outputs = FusedMixNorm::apply(m, x, weight, maybe(bias));
    return {.normalized = outputs[1], .skip = outputs[0]};
  }
  const auto mixed = join_streams(mix_streams(m, split_streams(x, n)));
  return {.normalized = layer_norm(mixed, weight, bias), .skip = mixed};
}

Tensor collect_streams(const Tensor& weight, const Tensor& x) {
  if (KernelChoice("collect_streams", x)
          .need(!on_gpu(x), "a CPU")
          .need(x.dim() == 4 && x.numel() > 0 && weight.sizes() == x.sizes().slice(0, 3),
                "a weight for each stream of each token")
          .need(weight.scalar_type() == x.scalar_type(), "weights of the state's type")
          .runs())
    return FusedCollect::apply(weight, x);
  return weight.unsqueeze(-2).matmul(x).squeeze(-2);
}

NormAndSkip collect_and_norm(const Tensor& read, const Tensor& x, const Tensor& weight,
                             int64_t tiles) {
  if (streams_run_fused("collect_and_norm", x)) {
    const auto outputs = FusedCollectNorm::apply(read, x, weight, tiles);
    return {.normalized = outputs[0], .skip = outputs[1]};
  }
  return {.normalized = layer_norm(collect_streams(read, x).repeat({1, 1, tiles}), weight),
          .skip = x};
}

Tensor mix_and_write(const Tensor& res, const Tensor& x, const Tensor& write, const Tensor& y) {
  if (streams_run_fused("mix_and_write", x)) return FusedMixWrite::apply(res, x, write, y);
  const auto branch = y.dim() == 3 ? y.unsqueeze(-2) : y;
  return mix_streams(res, x) + write.unsqueeze(-1) * branch;
}

Tensor spread_to_streams(const Tensor& weight, const Tensor& y) {
  return weight.unsqueeze(-1) * y.unsqueeze(-2);
}

Tensor stream_entropy(const Tensor& streams) {
  if (need_any_streams(
          KernelChoice("stream_entropy", streams).need(streams.numel() > 0, "at least one value"),
          streams.size(2), streams.size(3))
          .runs())
    return FusedStreamEntropy::apply(streams);
  const auto gram = streams.matmul(streams.transpose(-1, -2));
  const auto trace = gram.diagonal(0, -2, -1).sum(-1);
  return (1 - gram.square().sum({-1, -2}) / (trace.square() + 1e-8)).unsqueeze(-1);
}

}  // namespace geores
