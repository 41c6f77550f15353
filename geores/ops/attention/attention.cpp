#include "geores/ops/attention/attention.h"

#include <torch/version.h>

#include <cmath>
#include <limits>

#include "geores/base/error.h"
#include "geores/kernels/attention/attention.h"
#include "geores/kernels/attention/rotary.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

kernels::AttentionShape attention_shape(const Tensor& qkv, int64_t heads, bool causal = true) {
  return {.batch = qkv.size(0),
          .length = qkv.size(1),
          .heads = heads,
          .head_width = qkv.size(2) / (3 * heads),
          .causal = causal};
}

void require_heads(const char* where, const Tensor& qkv, int64_t heads) {
  require(qkv.dim() == 3 && heads >= 1 && qkv.size(2) % (3 * heads) == 0, where,
          "a last axis of {} is not q, k and v of {} heads", qkv.size(-1), heads);
}

// The kernels of a CPU.
class FusedAttention : public torch::autograd::Function<FusedAttention> {
  struct Kept {
    Tensor qkv, out, log_sum, cosine, sine;  // qkv after the rotation
    int64_t heads;
    bool causal, half;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.qkv), f(s.out), f(s.log_sum), f(s.cosine), f(s.sine);
    }
  };

  static void turn(const Tensor& qkv, const Tensor& cosine, const Tensor& sine, Tensor& out,
                   int64_t heads, kernels::Turn direction) {
    for_type_of(qkv, [&]<class T>(T) {
      kernels::turn_heads<T>(values<T>(qkv), values<T>(cosine), values<T>(sine), values<T>(out),
                             {.batch = qkv.size(0),
                              .length = qkv.size(1),
                              .heads = heads,
                              .head_width = qkv.size(2) / (3 * heads)},
                             direction);
    });
  }

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, int64_t heads, bool causal,
                        const OptionalTensor& cosines, const OptionalTensor& sines,
                        bool with_backward) {
    auto qkv = input.contiguous();
    const auto cosine = contiguous(cosines), sine = contiguous(sines);
    if (cosine.defined()) {
      auto turned = torch::empty_like(qkv);
      turn(qkv, cosine, sine, turned, heads, kernels::Turn::forth);
      qkv = turned;
    }
    const auto s = attention_shape(qkv, heads, causal);
    auto out = torch::empty({s.batch, s.length, heads * s.head_width}, qkv.options());
    const auto log_sum =
        with_backward ? torch::empty({s.batch, heads, s.length}, qkv.options()) : Tensor();
    const bool half = products_in_bfloat16();
    for_product_types(qkv, half, [&]<class T, class P>(T, P) {
      kernels::attention_forward<T, P>(values<T>(qkv), values<T>(out), values<T>(log_sum), s);
    });
    if (with_backward)
      save(context, Kept{.qkv = qkv,
                         .out = out,
                         .log_sum = log_sum,
                         .cosine = cosine,
                         .sine = sine,
                         .heads = heads,
                         .causal = causal,
                         .half = half});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    auto dqkv = torch::empty_like(s.qkv);
    for_product_types(s.qkv, s.half, [&]<class T, class P>(T, P) {
      kernels::attention_backward<T, P>(values<T>(s.qkv), values<T>(s.out), values<T>(s.log_sum),
                                        values<T>(dout), values<T>(dqkv),
                                        attention_shape(s.qkv, s.heads, s.causal));
    });
    if (s.cosine.defined()) turn(dqkv, s.cosine, s.sine, dqkv, s.heads, kernels::Turn::back);
    return {dqkv, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// The kernels in bfloat16 on a GPU.
class HalfAttention : public torch::autograd::Function<HalfAttention> {
  struct Kept {
    Tensor qkv, out, log_sum;
    int64_t heads;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.qkv), f(s.out), f(s.log_sum);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, int64_t heads) {
    const auto qkv = input.contiguous();
    const auto s = attention_shape(qkv, heads);
    auto out = torch::empty({s.batch, s.length, heads * s.head_width}, qkv.options());
    const auto log_sum =
        torch::empty({s.batch, heads, s.length}, qkv.options().dtype(torch::kFloat32));
    if constexpr (kernels::kHasCuda)
      kernels::causal_attention_forward(current_cuda_stream(), values<kernels::BFloat16>(qkv),
                                        values<kernels::BFloat16>(out), values<float>(log_sum), s);
    save(context, Kept{.qkv = qkv, .out = out, .log_sum = log_sum, .heads = heads});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    using kernels::BFloat16;
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    auto dqkv = torch::empty_like(s.qkv);
    if constexpr (kernels::kHasCuda)
      kernels::causal_attention_backward(current_cuda_stream(), values<BFloat16>(s.qkv),
                                         values<BFloat16>(s.out), values<float>(s.log_sum),
                                         values<BFloat16>(dout), values<BFloat16>(dqkv),
                                         attention_shape(s.qkv, s.heads));
    return {dqkv, Tensor()};
  }
};

constexpr const char* kSizesOnGpu = "heads of 32 or 64 values and a length that fits shared memory";

bool attention_fits_gpu(const Tensor& qkv, int64_t heads) {
  return kernels::attention_fits_device(qkv.size(1), qkv.size(2) / (3 * heads));
}

// Mainly for evaluations: LibTorch's attention of float32 values is slower.
bool attention_runs_in_tf32(const Tensor& qkv, int64_t heads) {
  return KernelChoice("causal_attention", qkv, "tf32 kernel")
      .need(on_gpu(qkv), "a GPU")
      .need(qkv.scalar_type() == torch::kFloat32 && !products_in_bfloat16() &&
                float32_products_in_tf32(),
            "precision tf32")
      .need(!needs_gradient(qkv) && !execution().repeated_for_gradients, "no gradient")
      .need(qkv.numel() > 0, "at least one value")
      .need(attention_fits_gpu(qkv, heads), kSizesOnGpu)
      .runs();
}

// LibTorch's fused attention (2.0 and later), which does not store the weights of all pairs.
bool takes_libtorch_attention(const char* operation, const Tensor& x) {
  return KernelChoice::any_type(operation, x, "LibTorch's attention")
      .need(on_gpu(x), "a GPU")
      .need(TORCH_VERSION_MAJOR >= 2, "LibTorch 2")
      .runs();
}

Tensor libtorch_attention([[maybe_unused]] const Heads& heads, [[maybe_unused]] bool causal) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(heads.q, heads.k, heads.v, {}, 0.0, causal)
      .transpose(1, 2)
      .flatten(2);
#else
  fail("attention", "needs LibTorch 2");
#endif
}

}  // namespace

Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  const auto length = queries.size(2), past = keys.size(2) - length;
  const auto scale = 1.0 / std::sqrt(static_cast<double>(queries.size(3)));
  const auto future =
      torch::ones({length, past + length}, queries.options().dtype(torch::kBool)).triu(past + 1);
  const auto scores = queries.matmul(keys.transpose(-1, -2)) * scale;  // (B, h, T, past + T)
  const auto weights =
      scores.masked_fill(future, -std::numeric_limits<double>::infinity()).softmax(-1);
  return weights.matmul(values).transpose(1, 2).flatten(2);
}

Tensor causal_attention(const Tensor& qkv, int64_t heads) {
  require_heads("causal_attention", qkv, heads);
  if (KernelChoice("causal_attention", qkv, "tiles of queries").need(!on_gpu(qkv), "a CPU").runs())
    return FusedAttention::apply(qkv, heads, /*causal=*/true, maybe({}), maybe({}),
                                 needs_gradient(qkv));
  if (KernelChoice::any_type("causal_attention", qkv, "bfloat16 kernel")
          .need(on_gpu(qkv), "a GPU")
          .need(qkv.scalar_type() == torch::kBFloat16, "bfloat16 values")
          .need(attention_fits_gpu(qkv, heads), kSizesOnGpu)
          .runs())
    return HalfAttention::apply(qkv, heads);
  if (attention_runs_in_tf32(qkv, heads)) {
    const auto input = qkv.contiguous();
    const auto out = torch::empty({qkv.size(0), qkv.size(1), qkv.size(2) / 3}, qkv.options());
    if constexpr (kernels::kHasCuda)
      kernels::causal_attention_tf32(current_cuda_stream(), values<float>(input),
                                     values<float>(out), attention_shape(input, heads));
    return out;
  }
  const auto by_head = split_heads(for_product(qkv), heads);
  if (takes_libtorch_attention("causal_attention", qkv))
    return libtorch_attention(by_head, /*causal=*/true).to(qkv.scalar_type());
  return attend(by_head.q, by_head.k, by_head.v).to(qkv.scalar_type());
}

Tensor full_attention(const Tensor& qkv, int64_t heads, const RotaryTables& tables) {
  require_heads("full_attention", qkv, heads);
  const bool turns = tables.cosine.defined();
  if (turns) {
    const auto width = qkv.size(2) / (3 * heads);
    require(width % 2 == 0 && tables.cosine.sizes() == tables.sine.sizes() &&
                tables.cosine.sizes() == torch::IntArrayRef({qkv.size(1), width / 2}),
            "full_attention", "the tables do not fit {} positions of heads of {} values",
            qkv.size(1), width);
  }
  if (KernelChoice("full_attention", qkv, "tiles of queries")
          .need(!on_gpu(qkv), "a CPU")
          .need(qkv.numel() > 0, "at least one value")
          .need(!turns || tables.cosine.scalar_type() == qkv.scalar_type(),
                "tables of the same type")
          .runs())
    return FusedAttention::apply(qkv, heads, /*causal=*/false, maybe(tables.cosine),
                                 maybe(tables.sine), needs_gradient(qkv));
  const auto by_head = split_heads(qkv, heads, tables);
  if (takes_libtorch_attention("full_attention", qkv)) return libtorch_attention(by_head, false);
  const auto q = for_product(by_head.q), k = for_product(by_head.k), v = for_product(by_head.v);
  const auto scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  const auto weights = torch::softmax(q.matmul(k.transpose(-2, -1)) * scale, -1);
  return weights.matmul(v).transpose(1, 2).flatten(2).to(qkv.scalar_type());
}

}  // namespace geores
