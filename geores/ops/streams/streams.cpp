#include "geores/ops/streams/streams.h"

#include <vector>

#include "geores/base/error.h"
#include "geores/kernels/streams/streams.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

bool streams_run_fused(const Tensor& x, int64_t n, int64_t d) {
  if (x.numel() == 0) return false;
  return runs_cpu_kernel(x) ? n <= kernels::kMostStreams
                       : runs_cuda_kernel(x) && kernels::is_device_stream_count(n) &&
                             d <= kernels::kDeviceStreamWidth;
}

// Outputs: M x and LN(M x).
class FusedMixNorm : public torch::autograd::Function<FusedMixNorm> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& operators, const Tensor& input,
                             const Tensor& weights, const OptionalTensor& biases) {
    const auto m = operators.contiguous(), x = input.contiguous(), weight = weights.contiguous(),
               bias = contiguous(biases);
    auto g = torch::empty_like(x), h = for_product_of(x, x.sizes());
    auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on(x, h, [&]<class T, class A>(T, A, auto... place) {
      kernels::mix_norm_forward<T>(place..., values<T>(m), values<T>(x),
                                   {.weight = values<T>(weight), .bias = values<T>(bias)},
                                   values<T>(g), values<A>(h), statistics_in<T>(statistics),
                                   m.size(0) * m.size(1), shape(m, x));
    });
    context->save_for_backward({m, x, weight, statistics, gradient_place(weight)});
    context->saved_data["bias"] = bias.defined();
    return {g, h};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &m = saved[0], &x = saved[1], &weight = saved[2], &statistics = saved[3];
    const auto dg = contiguous(gradients[0]), dh = contiguous(gradients[1]);
    const auto dx = torch::empty_like(x), dm = torch::empty_like(m);
    const auto dweight = parameter_sum(weight, saved[4]);
    const auto dbias = context->saved_data["bias"].toBool() ? torch::zeros_like(weight) : Tensor();
    on(x, dh.defined() ? dh : x, [&]<class T, class A>(T, A, auto... place) {
      kernels::mix_norm_backward<T>(
          place..., values<T>(m), values<T>(x), {.weight = values<T>(weight)},
          statistics_in<T>(statistics), values<T>(dg), values<A>(dh), values<T>(dx), values<T>(dm),
          values<T>(dweight.sum), values<T>(dbias), m.size(0) * m.size(1), shape(m, x));
    });
    return {dm, dx, dweight.gradient, dbias};
  }

 private:
  static kernels::StreamShape shape(const Tensor& m, const Tensor& x) {
    return {.tokens = x.size(0) * x.size(1), .n = m.size(-1), .d = x.size(2) / m.size(-1)};
  }
};

kernels::StreamShape stream_shape(const Tensor& streams) {
  return {.tokens = streams.size(0) * streams.size(1), .n = streams.size(2), .d = streams.size(3)};
}

// Outputs: LN of the collected streams, and x.
class FusedCollectNorm : public torch::autograd::Function<FusedCollectNorm> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& reads, const Tensor& input,
                             const Tensor& weights, int64_t tiles) {
    const auto read = reads.contiguous(), x = input.contiguous(), weight = weights.contiguous();
    auto h = for_product_of(x, {x.size(0), x.size(1), tiles * x.size(3)});
    auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on(x, h, [&]<class T, class A>(T, A, auto... place) {
      kernels::collect_norm_forward<T>(place..., values<T>(read), values<T>(x),
                                       {.weight = values<T>(weight)}, tiles, values<A>(h),
                                       statistics_in<T>(statistics), stream_shape(x));
    });
    context->save_for_backward({read, x, weight, statistics, gradient_place(weight)});
    context->saved_data["tiles"] = tiles;
    return {h, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &read = saved[0], &x = saved[1], &weight = saved[2], &statistics = saved[3];
    const auto dh = gradients[0].contiguous(), skip = contiguous(gradients[1]);
    const auto dx = torch::empty_like(x), dread = torch::empty_like(read);
    const auto dweight = parameter_sum(weight, saved[4]);
    on(x, dh, [&]<class T, class A>(T, A, auto... place) {
      kernels::collect_norm_backward<T>(
          place..., values<T>(read), values<T>(x), {.weight = values<T>(weight)},
          context->saved_data["tiles"].toInt(), statistics_in<T>(statistics), values<A>(dh),
          values<T>(skip), values<T>(dx), values<T>(dread), values<T>(dweight.sum),
          stream_shape(x));
    });
    return {dread, dx, dweight.gradient, Tensor()};
  }
};

class FusedMixWrite : public torch::autograd::Function<FusedMixWrite> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& mixers, const Tensor& input,
                        const Tensor& writes, const Tensor& branches) {
    const auto res = mixers.contiguous(), x = input.contiguous(), write = writes.contiguous(),
               branch = branches.contiguous();
    auto out = torch::empty_like(x);
    on(x, branch, [&]<class T, class A>(T, A, auto... place) {
      kernels::mix_write_forward(place..., values<T>(res), values<T>(x), values<T>(write),
                                 values<A>(branch), kind(branch), values<T>(out), stream_shape(x));
    });
    context->save_for_backward({res, x, write, branch});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &res = saved[0], &x = saved[1], &write = saved[2], &branch = saved[3];
    const auto dout = gradients[0].contiguous();
    tensor_list result;
    for (const auto& tensor : saved) result.push_back(torch::empty_like(tensor));
    on(x, branch, [&]<class T, class A>(T, A, auto... place) {
      kernels::mix_write_backward(place..., values<T>(res), values<T>(x), values<T>(write),
                                  values<A>(branch), kind(branch), values<T>(dout),
                                  values<T>(result[0]), values<T>(result[1]), values<T>(result[2]),
                                  values<A>(result[3]), stream_shape(x));
    });
    return result;
  }

 private:
  static kernels::Branch kind(const Tensor& branch) {
    return branch.dim() == 3 ? kernels::Branch::shared : kernels::Branch::per_stream;
  }
};

class FusedStreamEntropy : public torch::autograd::Function<FusedStreamEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& streams) {
    const auto x = streams.contiguous();
    context->save_for_backward({x});
    auto entropy = torch::empty({x.size(0), x.size(1), 1}, x.options());
    on(x, [&]<class T>(T, auto... place) {
      kernels::stream_entropy_forward(place..., values<T>(x), values<T>(entropy), stream_shape(x));
    });
    return entropy;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto x = context->get_saved_variables()[0], dentropy = gradients[0].contiguous();
    auto dx = torch::empty_like(x);
    on(x, [&]<class T>(T, auto... place) {
      kernels::stream_entropy_backward(place..., values<T>(x), values<T>(dentropy), values<T>(dx),
                                       stream_shape(x));
    });
    return {dx};
  }
};

}  // namespace

Tensor split_streams(const Tensor& x, int64_t n) {
  require(n >= 1 && x.size(-1) % n == 0, "split_streams", "width {} is not divisible by {} streams",
          x.size(-1), n);
  return x.unflatten(-1, std::vector<int64_t>{n, x.size(-1) / n});
}

Tensor join_streams(const Tensor& x) { return x.flatten(-2); }

Tensor mix_streams(const Tensor& m, const Tensor& x) { return m.matmul(x); }

NormAndSkip mix_and_norm(const Tensor& m, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  const auto n = m.size(-1);
  const auto fits = m.dim() == 4 && x.dim() == 3 && m.size(0) == x.size(0) && x.size(2) % n == 0;
  if (fits && streams_run_fused(x, n, x.size(2) / n)) {
    const auto outputs = FusedMixNorm::apply(m, x, weight, maybe(bias));
    return {.normalized = outputs[1], .skip = outputs[0]};
  }
  const auto mixed = join_streams(mix_streams(m, split_streams(x, n)));
  return {.normalized = layer_norm(mixed, weight, bias), .skip = mixed};
}

Tensor collect_streams(const Tensor& weight, const Tensor& x) {
  return weight.unsqueeze(-2).matmul(x).squeeze(-2);
}

NormAndSkip collect_and_norm(const Tensor& read, const Tensor& x, const Tensor& weight,
                             int64_t tiles) {
  if (streams_run_fused(x, x.size(2), x.size(3))) {
    const auto outputs = FusedCollectNorm::apply(read, x, weight, tiles);
    return {.normalized = outputs[0], .skip = outputs[1]};
  }
  return {.normalized = layer_norm(collect_streams(read, x).repeat({1, 1, tiles}), weight),
          .skip = x};
}

Tensor mix_and_write(const Tensor& res, const Tensor& x, const Tensor& write, const Tensor& y) {
  if (streams_run_fused(x, x.size(2), x.size(3))) return FusedMixWrite::apply(res, x, write, y);
  const auto branch = y.dim() == 3 ? y.unsqueeze(-2) : y;
  return mix_streams(res, x) + write.unsqueeze(-1) * branch;
}

Tensor spread_to_streams(const Tensor& weight, const Tensor& y) {
  return weight.unsqueeze(-1) * y.unsqueeze(-2);
}

Tensor stream_entropy(const Tensor& streams) {
  if (streams_run_fused(streams, streams.size(2), streams.size(3)))
    return FusedStreamEntropy::apply(streams);
  const auto gram = streams.matmul(streams.transpose(-1, -2));
  const auto trace = gram.diagonal(0, -2, -1).sum(-1);
  return (1 - gram.square().sum({-1, -2}) / (trace.square() + 1e-8)).unsqueeze(-1);
}

}  // namespace geores
