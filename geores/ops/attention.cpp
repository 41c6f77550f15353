#include "geores/ops/attention.h"

#include <torch/version.h>

#include <cmath>
#include <limits>

#include "geores/base/error.h"
#include "geores/kernels/attention.h"
#include "geores/ops/fused.h"
#include "geores/ops/precision.h"

namespace geores {
namespace {

using namespace fused;

class FusedAttention : public torch::autograd::Function<FusedAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, int64_t heads, bool keep) {
    const auto qkv = input.contiguous();
    const auto s = shape(qkv, heads);
    auto out = torch::empty({s.batch, s.length, heads * s.head_width}, qkv.options());
    const auto log_sum = keep ? torch::empty({s.batch, heads, s.length}, qkv.options()) : Tensor();
    for_type_of(qkv, [&]<class T>(T) {
      kernels::causal_attention_forward(values<T>(qkv), values<T>(out), values<T>(log_sum), s);
    });
    context->saved_data["heads"] = heads;
    if (keep) context->save_for_backward({qkv, out, log_sum});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &qkv = saved[0], &out = saved[1], &log_sum = saved[2];
    const auto dout = gradients[0].contiguous();
    auto dqkv = torch::empty_like(qkv);
    for_type_of(qkv, [&]<class T>(T) {
      kernels::causal_attention_backward(values<T>(qkv), values<T>(out), values<T>(log_sum),
                                         values<T>(dout), values<T>(dqkv),
                                         shape(qkv, context->saved_data["heads"].toInt()));
    });
    return {dqkv, Tensor(), Tensor()};
  }

 private:
  static kernels::AttentionShape shape(const Tensor& qkv, int64_t heads) {
    return {.batch = qkv.size(0),
            .length = qkv.size(1),
            .heads = heads,
            .head_width = qkv.size(2) / (3 * heads)};
  }
};

#if TORCH_VERSION_MAJOR >= 2
// LibTorch's flash attention in bfloat16, on the projection as it lies in memory. Its autograd
// would write the three gradients twice: once each, once joined.
class FlashAttention : public torch::autograd::Function<FlashAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, int64_t heads) {
    const auto qkv = input.contiguous();
    const auto parts = by_head(qkv, heads);
    auto [out, log_sum, q_lengths, k_lengths, most_q, most_k, seed, offset, mask] =
        at::_scaled_dot_product_flash_attention(parts[0], parts[1], parts[2], 0.0,
                                                /*is_causal=*/true);
    context->save_for_backward({qkv, out, log_sum, seed, offset});
    context->saved_data["heads"] = heads;
    return out.transpose(1, 2).flatten(2);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &qkv = saved[0], &out = saved[1], &log_sum = saved[2];
    const auto heads = context->saved_data["heads"].toInt(), length = qkv.size(1);
    const auto parts = by_head(qkv, heads);
    const auto dout =
        gradients[0].contiguous().unflatten(-1, std::vector<int64_t>{heads, -1}).transpose(1, 2);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
        dout, parts[0], parts[1], parts[2], out, log_sum, Tensor(), Tensor(), length, length, 0.0,
        /*is_causal=*/true, saved[3], saved[4]);
    auto dqkv = torch::empty_like(qkv);
    const auto dparts = by_head(dqkv, heads);
    dparts[0].copy_(dq);
    dparts[1].copy_(dk);
    dparts[2].copy_(dv);
    return {dqkv, Tensor()};
  }

 private:
  // (B, T, 3hd) as three views (B, h, T, d).
  static std::vector<Tensor> by_head(const Tensor& qkv, int64_t heads) {
    return qkv.unflatten(-1, std::vector<int64_t>{3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
  }
};
#endif

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
  require(qkv.dim() == 3 && heads >= 1 && qkv.size(2) % (3 * heads) == 0, "causal_attention",
          "a last axis of {} is not q, k and v of {} heads", qkv.size(-1), heads);
  if (runs_fused(qkv)) return FusedAttention::apply(qkv, heads, needs_gradient(qkv));
  const auto by_head = for_product(qkv)
                           .unflatten(-1, std::vector<int64_t>{3, heads, -1})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
#if TORCH_VERSION_MAJOR >= 2
  if (qkv.is_cuda() && implementation() == Implementation::fused &&
      product_type(qkv.scalar_type()) == torch::kBFloat16 && qkv.size(2) / (3 * heads) % 8 == 0)
    return FlashAttention::apply(for_product(qkv), heads).to(qkv.scalar_type());
  if (qkv.is_cuda() && implementation() == Implementation::fused)
    return at::scaled_dot_product_attention(by_head[0], by_head[1], by_head[2], {}, 0.0,
                                            /*is_causal=*/true)
        .transpose(1, 2)
        .flatten(2)
        .to(qkv.scalar_type());
#endif
  return attend(by_head[0], by_head[1], by_head[2]).to(qkv.scalar_type());
}

}  // namespace geores
