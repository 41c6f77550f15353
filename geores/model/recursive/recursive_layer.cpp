#include "geores/model/recursive/recursive_layer.h"

#include <cmath>

#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

// The pair is (i, i + d/2). In the type of the tables, then back in that of x.
Tensor rotated(const Tensor& x, const RotaryTables& tables) {
  const auto half = x.size(-1) / 2;
  const auto a = x.slice(-1, 0, half), b = x.slice(-1, half);
  return torch::cat({a * tables.cosine - b * tables.sine, b * tables.cosine + a * tables.sine}, -1)
      .to(x.scalar_type());
}

// (B, h, S, d) each -> (B, S, h·d)
Tensor attend_everywhere(const Tensor& q, const Tensor& k, const Tensor& v) {
#if TORCH_VERSION_MAJOR >= 2
  if (q.is_cuda() && execution().form == Form::fused)
    return at::scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2);
#endif
  const auto scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  const auto weights = torch::softmax(q.matmul(k.transpose(-2, -1)) * scale, -1);
  return weights.matmul(v).transpose(1, 2).flatten(2);
}

std::shared_ptr<SwiGluMlp> make_swiglu(int64_t width, int64_t hidden) {
  auto mlp = std::make_shared<SwiGluMlp>(width, hidden, 0.0);
  const torch::NoGradGuard no_grad;
  for (const auto& item : mlp->named_parameters())
    item.value().copy_(truncated_normal(item.value().sizes(),
                                        1 / std::sqrt(static_cast<double>(item.value().size(1)))));
  return mlp;
}

// Activations between the products of a sublayer, in bfloat16 where a GPU's products want that.
Tensor activation(const Tensor& x) { return x.is_cuda() ? for_product(x) : x; }

}  // namespace

Tensor truncated_normal(at::IntArrayRef shape, double std) {
  constexpr double kCut = 2, kShrink = 0.87962566103423978;  // deviation of N(0, 1) cut at ±2
  const auto edge = std::erf(kCut / std::sqrt(2.0)), scale = std / kShrink;
  const auto uniform = torch::empty(shape, torch::kFloat64).uniform_(-edge, edge);
  return (std::sqrt(2.0) * scale * torch::erfinv(uniform))
      .clamp(-kCut * scale, kCut * scale)
      .to(torch::kFloat32);
}

RotaryTables rotary_tables(int64_t positions, int64_t head_width, double theta,
                           const Tensor& like) {
  const auto exact = like.options().dtype(torch::kFloat64).requires_grad(false);
  const auto frequencies = torch::pow(
      theta, torch::arange(head_width / 2, exact) * (-2.0 / static_cast<double>(head_width)));
  const auto angles = torch::outer(torch::arange(positions, exact), frequencies);
  return {.cosine = angles.cos().to(like.scalar_type()),
          .sine = angles.sin().to(like.scalar_type())};
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
  auto heads = linear_map(activation(x), qkv_)
                   .unflatten(-1, std::vector<int64_t>{3, heads_, head_width_})
                   .permute({2, 0, 3, 1, 4})
                   .unbind(0);
  if (rotary.cosine.defined())
    for (const auto i : {0, 1}) heads[i] = rotated(heads[i], rotary);
  return linear_map(attend_everywhere(heads[0], heads[1], heads[2]), out_);
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

Tensor RecursiveLayer::mixed(Residual& mixer, const Tensor& h, const Sublayer& f,
                             Trace& trace) const {
  if (mixer.traits().layout != StreamLayout::expand) return mixer.forward(h, f, trace);
  return join_streams(mixer.forward(split_streams(h, streams_), f, trace));
}

Tensor RecursiveLayer::forward(const Tensor& h, const RotaryTables& rotary, Trace& trace) {
  const Sublayer attend = [&](const Tensor& x) { return attention_->forward(x, rotary); };
  const Sublayer think = [&](const Tensor& x) { return mlp_->forward(activation(x)); };
  if (attention_mixer_) {
    const auto after = rms_normalize(mixed(*attention_mixer_, h, attend, trace), eps_);
    return rms_normalize(mixed(*mlp_mixer_, after, think, trace), eps_);
  }
  Tensor after;
  if (positions_mlp_) {
    const auto channels = h.transpose(1, 2).contiguous();  // (B, D, S)
    after = rms_normalize(channels + positions_mlp_->forward(activation(channels)), eps_)
                .transpose(1, 2)
                .contiguous();
  } else {
    after = rms_normalize(h + attend(h), eps_);
  }
  return rms_normalize(after + think(after), eps_);
}

std::vector<Residual*> RecursiveLayer::mixers() const {
  if (!attention_mixer_) return {};
  return {attention_mixer_.get(), mlp_mixer_.get()};
}

}  // namespace geores
