#include "geores/model/recursive/recursive_layer.h"

#include <cmath>

#include "geores/ops/attention/attention.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/post_norm.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

std::shared_ptr<SwiGluMlp> make_swiglu(int64_t width, int64_t hidden) {
  auto mlp = std::make_shared<SwiGluMlp>(width, hidden, 0.0);
  const torch::NoGradGuard no_grad;
  for (const auto& item : mlp->named_parameters())
    item.value().copy_(truncated_normal(item.value().sizes(),
                                        1 / std::sqrt(static_cast<double>(item.value().size(1)))));
  return mlp;
}

}  // namespace

Tensor truncated_normal(at::IntArrayRef shape, double std) {
  constexpr double kCut = 2, kShrink = 0.87962566103423978;  // deviation of N(0, 1) cut at ±2
  const auto edge = std::erf(kCut / std::sqrt(2.0)), scale = std / kShrink;
  const auto uniform = torch::empty(shape, torch::kFloat64).uniform_(-edge, edge);
  return (std::sqrt(2.0) * scale * torch::erfinv(uniform))
      .clamp(-kCut * scale, kCut * scale)
      .to(torch::kFloat32);
}

FullAttention::FullAttention(int64_t width, int64_t heads, int64_t head_width)
    : heads_(heads), head_width_(head_width) {
  const auto inside = heads * head_width;
  qkv_ = register_parameter(
      "qkv", truncated_normal({3 * inside, width}, 1 / std::sqrt(static_cast<double>(width))));
  out_ = register_parameter(
      "out", truncated_normal({width, inside}, 1 / std::sqrt(static_cast<double>(inside))));
}

Tensor FullAttention::forward(const Tensor& x, const RotaryTables& rotary) const {
  return linear_map(full_attention(linear_map(x, qkv_), heads_, rotary), out_);
}

RecursiveLayer::RecursiveLayer(const RecursiveOptions& options, int64_t positions, int64_t index)
    : eps_(options.norm_eps), streams_(options.streams) {
  const auto width = options.sublayer_width();
  if (options.mlp_t)
    positions_mlp_ =
        register_module("positions_mlp", make_swiglu(positions, options.swiglu_hidden(positions)));
  else
    attention_ = register_module(
        "attention",
        std::make_shared<FullAttention>(width, options.sublayer_heads(), options.head_width()));
  const auto hidden = options.mlp_hidden > 0 ? options.mlp_hidden : options.swiglu_hidden(width);
  mlp_ = register_module("mlp", make_swiglu(width, hidden));
  if (!options.mixes()) return;
  attention_mixer_ = register_module("attention_mixer", make_mixer(options, 2 * index));
  mlp_mixer_ = register_module("mlp_mixer", make_mixer(options, 2 * index + 1));
}

PostNormed RecursiveLayer::mixed(Residual& mixer, const Tensor& h, const Sublayer& f,
                                 const PostNorm& norm, Trace& trace) const {
  if (h.scalar_type() == torch::kBFloat16 && !mixer.supports_bf16_state()) {
    auto full = norm;
    full.added = in_full_type(norm.added);
    const auto made = mixed(mixer, in_full_type(h), f, full, trace);
    const auto state = in_state_type(made.state);
    const bool same = made.next.is_same(made.state);
    return {.state = state, .next = same ? state : in_state_type(made.next), .product = {}};
  }
  if (mixer.traits().layout != StreamLayout::expand)
    return mixer.forward_normalized(h, f, norm, trace);
  auto in_streams = norm;
  if (norm.added.defined()) in_streams.added = split_streams(norm.added, streams_);
  return joined(mixer.forward_normalized(split_streams(h, streams_), f, in_streams, trace));
}

PostNormed RecursiveLayer::forward(const StateAndProduct& h, const RotaryTables& rotary,
                                   Trace& trace, const Tensor& added, bool keeps_state) {
  const PostNorm inside{.epsilon = eps_},
      last{.epsilon = eps_, .added = added, .keeps_state = keeps_state};
  if (attention_mixer_) {
    const Sublayer attend = [&](const Tensor& x) {
      return attention_->forward(with_product(x).product, rotary);
    };
    const Sublayer think = [&](const Tensor& x) { return mlp_->forward(with_product(x).product); };
    const auto after = mixed(*attention_mixer_, h.state, attend, inside, trace).state;
    return mixed(*mlp_mixer_, after, think, last, trace);
  }
  StateAndProduct after;
  if (positions_mlp_) {
    const auto channels = with_product(h.state.transpose(1, 2).contiguous());  // (B, D, S)
    after = with_product(post_norm(channels.state, positions_mlp_->forward(channels.product), eps_)
                             .state.transpose(1, 2)
                             .contiguous());
  } else {
    after = post_norm(h.state, attention_->forward(h.product, rotary), eps_);
  }
  return post_norm(after.state, mlp_->forward(after.product), last, /*wants_product=*/true);
}

std::vector<Residual*> RecursiveLayer::mixers() const {
  if (!attention_mixer_) return {};
  return {attention_mixer_.get(), mlp_mixer_.get()};
}

}  // namespace geores
