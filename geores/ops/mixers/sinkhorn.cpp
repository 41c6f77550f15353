#include "geores/ops/mixers/sinkhorn.h"

#include "geores/base/error.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

// Columns last. In log space, where any logits keep their digits, unless there is a guard to add.
Tensor iterate(const Tensor& logits, const SinkhornSpec& spec) {
  constexpr int64_t kRows = -1, kColumns = -2;
  if (spec.guard == 0) {
    auto log_p = logits;
    for (int64_t i = 0; i < spec.iterations; ++i)
      for (const auto axis : {kRows, kColumns})
        log_p = log_p - log_p.logsumexp(axis, /*keepdim=*/true);
    return log_p.exp();
  }
  auto p = spec.softmax ? logits : logits.exp();
  for (int64_t i = 0; i < spec.iterations; ++i)
    for (const auto axis : {kRows, kColumns})
      p = spec.softmax && i == 0 && axis == kRows
              ? p.softmax(axis) + spec.guard
              : p / (p.sum(axis, /*keepdim=*/true) + spec.guard);
  return p;
}

// The gradient of the fixed point, by the method of manifold::sinkhorn_backward_implicit for all
// matrices at once; its comment explains the elimination.
Tensor implicit_gradient(const Tensor& p, const Tensor& cotangent) {
  const auto n = p.size(-1);
  const auto apart = [](const Tensor& x) { return x.unsqueeze(-1) - x.unsqueeze(-2); };
  const auto outer = [](const Tensor& x, const Tensor& y) {
    return x.unsqueeze(-1) * y.unsqueeze(-2);
  };
  auto weight = torch::zeros_like(p), flow = torch::zeros_like(p);
  for (int64_t i = 0; i < n; ++i) {
    const auto row = p.select(-2, i);
    const auto shared = outer(row, row);
    weight = weight + shared;
    flow = flow + shared * apart(cotangent.select(-2, i));
  }

  std::vector<Tensor> share(n), outflow(n);  // of each node, to and from the nodes before it
  for (int64_t node = n - 1; node > 0; --node) {
    const auto to_earlier = [node](const Tensor& edges) {
      return edges.select(-2, node).slice(-1, 0, node);
    };
    const auto among_earlier = [node](const Tensor& edges) {
      return edges.slice(-2, 0, node).slice(-1, 0, node);
    };
    const auto weights = to_earlier(weight), flows = to_earlier(flow);
    const auto sum = weights.sum(-1, /*keepdim=*/true);
    const auto degree = torch::where(sum == 0, torch::ones_like(sum), sum);
    share[node] = weights / degree;
    outflow[node] = flows.sum(-1, /*keepdim=*/true) / degree;
    const auto through = outer(share[node], flows);
    weight = among_earlier(weight) + outer(weights, share[node]);
    flow = among_earlier(flow) + through - through.transpose(-1, -2);
  }
  auto v = torch::zeros_like(p.select(-1, 0).slice(-1, 0, 1));
  for (int64_t node = 1; node < n; ++node)
    v = torch::cat({v, outflow[node] + (share[node] * v).sum(-1, /*keepdim=*/true)}, -1);

  const auto differences = apart(v);
  auto gradient = torch::zeros_like(p);
  for (int64_t k = 0; k < n; ++k)
    gradient = gradient + p.slice(-1, k, k + 1) * ((cotangent - cotangent.slice(-1, k, k + 1)) -
                                                   differences.select(-1, k).unsqueeze(-2));
  return p * gradient;
}

// The same by Gauss-Seidel sweeps, as manifold::sinkhorn_backward_gauss_seidel has it.
Tensor gauss_seidel_gradient(const Tensor& p, const Tensor& cotangent) {
  const auto weighted = p * cotangent;
  const auto rows = weighted.sum(-1, /*keepdim=*/true), columns = weighted.sum(-2).unsqueeze(-1);
  auto u = torch::zeros_like(rows), v = torch::zeros_like(columns);
  for (int64_t sweep = 0; sweep < kGaussSeidelSweeps; ++sweep) {
    u = rows - p.matmul(v);
    v = columns - p.transpose(-1, -2).matmul(u);
  }
  return p * (cotangent - u - v.transpose(-1, -2));
}

// Composed, with a gradient of the fixed point.
class ImplicitSinkhorn : public torch::autograd::Function<ImplicitSinkhorn> {
  struct Kept {
    Tensor p;
    bool sweeps;  // by Gauss-Seidel

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.p);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& logits, const SinkhornSpec& spec) {
    const auto p = iterate(logits, spec);
    save(context, Kept{.p = p, .sweeps = spec.gradient == SinkhornGradient::gauss_seidel});
    return p;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto [p, sweeps] = saved<Kept>(context);
    return {sweeps ? gauss_seidel_gradient(p, gradients[0]) : implicit_gradient(p, gradients[0]),
            Tensor()};
  }
};

kernels::MixerShape mixer_shape(const Tensor& matrices) {
  const auto n = matrices.size(-1);
  return {.tokens = matrices.numel() / (n * n), .n = n};
}

// The kernel: any logits, guard and order, and the two gradients.
class FusedSinkhorn : public torch::autograd::Function<FusedSinkhorn> {
  struct Kept {
    Tensor logits, p;  // tensors that the gradient does not need are undefined
    kernels::Sinkhorn spec;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.logits), f(s.p);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input,
                        const kernels::Sinkhorn& spec) {
    const auto logits = input.contiguous();
    auto p = torch::empty_like(logits);
    on(logits, [&]<class T>(T, auto... cuda_stream) {
      kernels::sinkhorn_forward(cuda_stream..., values<T>(logits), spec, values<T>(p),
                                mixer_shape(p));
    });
    save(context, Kept{.logits = spec.unrolled || spec.options.bound > 0 ? logits : Tensor(),
                       .p = spec.unrolled ? Tensor() : p,
                       .spec = spec});
    return p;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    // The gradient does not depend on the omitted tensor. The unused pointer must be valid; pass
    // the other tensor.
    const auto& logits = s.logits.defined() ? s.logits : s.p;
    const auto& p = s.p.defined() ? s.p : s.logits;
    const auto dp = gradients[0].contiguous();
    auto dlogits = torch::empty_like(dp);
    on(dp, [&]<class T>(T, auto... cuda_stream) {
      kernels::sinkhorn_backward(cuda_stream..., values<T>(logits), s.spec, values<T>(p),
                                 values<T>(dp), values<T>(dlogits), mixer_shape(dp));
    });
    return {dlogits, Tensor()};
  }
};

bool has_kernel(const Tensor& logits, const SinkhornSpec& spec) {
  static const auto gpu_sizes = numbers_that(kernels::is_wide_stream_count) + " streams",
                    cpu_sizes = numbers_that(kernels::is_compiled_size) + " streams";
  const auto n = logits.size(-1);
  return KernelChoice("sinkhorn", logits)
      .need(spec.gradient != SinkhornGradient::gauss_seidel, "a gradient without sweeps")
      .need_on_gpu(kernels::is_wide_stream_count(n), gpu_sizes.c_str())
      .need_on_cpu(kernels::is_compiled_size(n), cpu_sizes.c_str())
      // The kernel repeats the iterations for every 32 of them.
      .need_on_cpu(spec.gradient == SinkhornGradient::implicit || spec.iterations <= 256,
                   "at most 256 iterations with a gradient of their own")
      .need(logits.numel() > 0, "at least one value")
      .runs();
}

Tensor composed(const Tensor& logits, const SinkhornSpec& spec) {
  if (spec.order == SinkhornOrder::rows_last) {
    auto turned = spec;
    turned.order = SinkhornOrder::columns_last;
    return composed(logits.transpose(-1, -2), turned).transpose(-1, -2);
  }
  const auto bound = spec.logit_bound;
  const auto bounded = bound > 0 ? logits.clamp(-bound, bound) : logits;
  const bool stock = spec.gradient == SinkhornGradient::implicit && execution().form == Form::stock;
  if (stock || spec.gradient == SinkhornGradient::unrolled) return iterate(bounded, spec);
  return ImplicitSinkhorn::apply(bounded, spec);
}

}  // namespace

SinkhornGradient sinkhorn_gradient_from(const std::string& name) {
  if (name == "implicit") return SinkhornGradient::implicit;
  if (name == "unrolled") return SinkhornGradient::unrolled;
  if (name == "gauss_seidel") return SinkhornGradient::gauss_seidel;
  fail("sinkhorn", "gradient must be implicit, unrolled or gauss_seidel, got '{}'", name);
}

SinkhornOrder sinkhorn_order_from(const std::string& name) {
  if (name == "rows_last") return SinkhornOrder::rows_last;
  if (name == "columns_last") return SinkhornOrder::columns_last;
  fail("sinkhorn", "order must be rows_last or columns_last, got '{}'", name);
}

kernels::Sinkhorn sinkhorn_kernel(const SinkhornSpec& spec) {
  return {.options = {.iterations = static_cast<int>(spec.iterations),
                      .bound = spec.logit_bound,
                      .guard = spec.guard,
                      .softmax = spec.softmax},
          .unrolled = spec.gradient == SinkhornGradient::unrolled,
          .rows_last = spec.order == SinkhornOrder::rows_last};
}

Tensor sinkhorn(const Tensor& logits, const SinkhornSpec& spec) {
  const auto bound = spec.logit_bound;
  require(spec.iterations >= 1, "sinkhorn", "iterations must be >= 1, got {}", spec.iterations);
  require(bound >= 0 && bound < 25, "sinkhorn", "the bound of logits must be 0 or below 25, got {}",
          bound);
  require(spec.guard == 0 || spec.gradient == SinkhornGradient::unrolled, "sinkhorn",
          "a guard has the gradient of the iterations");
  require(logits.dim() >= 2 && logits.size(-1) == logits.size(-2), "sinkhorn",
          "logits must be square matrices (..., n, n), got a last axis of {}", logits.size(-1));
  if (has_kernel(logits, spec)) return FusedSinkhorn::apply(logits, sinkhorn_kernel(spec));
  return composed(logits, spec);
}

SinkhornSpec guarded_sinkhorn_spec(int64_t iterations) {
  return {.iterations = iterations,
          .gradient = SinkhornGradient::unrolled,
          .logit_bound = 0,
          .guard = kSinkhornGuard};
}

Tensor guarded_sinkhorn(const Tensor& logits, int64_t iterations) {
  return sinkhorn(logits, guarded_sinkhorn_spec(iterations));
}

Tensor softmax_sinkhorn(const Tensor& logits, int64_t iterations, double guard) {
  return sinkhorn(logits, {.iterations = iterations,
                           .gradient = SinkhornGradient::unrolled,
                           .order = SinkhornOrder::rows_last,
                           .logit_bound = 0,
                           .guard = guard,
                           .softmax = true});
}

}  // namespace geores
