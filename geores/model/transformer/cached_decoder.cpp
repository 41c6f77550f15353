#include "geores/model/transformer/cached_decoder.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/ops/inference/into.h"
#include "geores/ops/run/execution.h"

namespace geores {
namespace {

// Keeps its type when the model moves to another type or device.
Transformer::End detached(const Transformer::End& end) {
  return {end.weight.detach(), end.bias.defined() ? end.bias.detach() : Tensor()};
}

}  // namespace

CachedDecoder::CachedDecoder(Transformer& model, int64_t batch) : model_(model) {
  require(model.causal(), "decoder",
          "{} with these options needs the whole sequence; choose pool = causal or token and "
          "attention = causal",
          model.config().connection);
  torch::NoGradGuard no_grad;
  for (const auto& block : model.blocks())
    caches_.push_back(block->make_cache(batch, model.config().context));
  layers_ = token_layers(batch);
  if (layers_.empty()) return;

  input_ = detached(model.input_end());
  output_ = detached(model.output_end());
  norm_ = model.final_norm().weight().detach();
  positions_ = model.positions().detach();
  const auto& traits = model.traits();
  const auto width = model.config().width, inner = traits.sublayer_width;
  const auto buffer = [&](int64_t size) { return torch::zeros({batch, size}, norm_.options()); };
  state_ = buffer(traits.state_width);
  stream_ = traits.state_width == width ? state_ : buffer(width);
  qkv_ = buffer(3 * inner);
  attended_ = buffer(inner);
  branch_ = buffer(inner);
  features_ = buffer(width);
  result_ = buffer(output_.weight.size(0));
}

std::vector<CachedDecoder::Layer> CachedDecoder::token_layers(int64_t batch) const {
  std::vector<Layer> layers;
  const auto& sublayers = model_.config().sublayers;
  if (sublayers.rotary() || sublayers.mlp != "gelu" || sublayers.branch_width > 0) return layers;
  if (model_.config().past.what != "none" || model_.config().output_length != "free") return layers;
  if (!runs_cpu_kernel(model_.positions()) || model_.has_head()) return layers;
  for (const auto& block : model_.blocks()) {
    Layer layer{.attention = block->attention_residual().token_step(batch),
                .mlp = block->mlp_residual().token_step(batch),
                .qkv = {},
                .out = {},
                .up = {},
                .down = {}};
    if (!layer.attention || !layer.mlp) return {};
    const auto attention = block->attention_folding().weights(),
               mlp = block->mlp_folding().weights();
    layer.qkv = attention.first.detach(), layer.out = attention.last.detach();
    layer.up = mlp.first.detach(), layer.down = mlp.last.detach();
    layers.push_back(std::move(layer));
  }
  return layers;
}

// stream = embedding of x at this position
void CachedDecoder::embed(const Tensor& x) {
  const auto width = stream_.size(1);
  const auto tokens = model_.config().input == "tokens";
  require(tokens == (x.scalar_type() == torch::kInt64) &&
              (tokens ? x.numel() == stream_.size(0) : x.scalar_type() == stream_.scalar_type()),
          "decoder", "expected one {} per sequence",
          tokens ? "token id" : "vector of the model's type");
  if (!tokens) {
    require(x.dim() == 2 && x.size(0) == stream_.size(0) && x.size(1) == input_.weight.size(1),
            "decoder", "expected ({}, {}) values a step, got a last axis of {}", stream_.size(0),
            input_.weight.size(1), x.size(-1));
    into::linear(x, input_.weight, input_.bias, stream_);
  }
  const auto add_rows = [&]<class T>(T) {
    T* stream = stream_.data_ptr<T>();
    const T* position = positions_.data_ptr<T>() + position_ * width;
    for (int64_t b = 0; b < stream_.size(0); ++b, stream += width) {
      if (x.scalar_type() == torch::kInt64) {
        const auto id = x.data_ptr<int64_t>()[b];
        require(id >= 0 && id < input_.weight.size(0), "decoder", "token id {} is not in 0..{}", id,
                input_.weight.size(0) - 1);
        std::copy_n(input_.weight.data_ptr<T>() + id * width, width, stream);
      }
      for (int64_t i = 0; i < width; ++i) stream[i] += position[i];
    }
  };
  stream_.scalar_type() == torch::kFloat32 ? add_rows(float()) : add_rows(double());
}

void CachedDecoder::step_in_place(const Tensor& x) {
  require(position_ < model_.config().context, "decoder",
          "position {} is beyond the model's context of {}", position_, model_.config().context);
  const bool several = state_.size(1) != stream_.size(1);
  embed(x);
  if (several) into::repeat(stream_, state_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    auto& layer = layers_[i];
    into::linear(layer.attention->read(state_), layer.qkv, {}, qkv_);
    into::attend_next(qkv_, position_, caches_[i].keys, caches_[i].values, attended_);
    into::linear(attended_, layer.out, {}, branch_);
    layer.attention->write(branch_, state_);
    into::perceptron(layer.mlp->read(state_), layer.up, layer.down, branch_);
    layer.mlp->write(branch_, state_);
  }
  if (several) into::sum_streams(state_, stream_);
  into::layer_norm(stream_, norm_, features_);
  into::linear(features_, output_.weight, output_.bias, result_);
  ++position_;
}

const Tensor& CachedDecoder::step(const Tensor& x) {
  if (in_place()) {
    // A slice of a batch is not contiguous; a single sequence is.
    step_in_place(x.is_contiguous() ? x : x.contiguous());
    return result_;
  }
  result_ = read_tensors(x.unsqueeze(1));
  return result_;
}

const Tensor& CachedDecoder::read(const Tensor& x) {
  if (!in_place()) {
    result_ = read_tensors(x);
    return result_;
  }
  if (position_ > 0 || x.size(1) == 1) return Decoder::read(x);
  result_.copy_(read_tensors(x));
  memory_.start_pass();
  for (auto& layer : layers_)
    for (auto* step : {layer.attention.get(), layer.mlp.get()})
      step->continue_means(memory_, position_);
  return result_;
}

// The predictions of the last position.
Tensor CachedDecoder::read_tensors(const Tensor& x) {
  torch::NoGradGuard no_grad;
  memory_.start_pass();
  Trace trace(memory_);
  State state = model_.initial_state(x, position_, &past_);
  for (size_t i = 0; i < caches_.size(); ++i)
    state = model_.blocks()[i]->advance(state, trace, &caches_[i]);
  const auto last = x.size(1) - 1;
  const State of_last(state.total().slice(1, last), {}, nullptr,
                      state.read.defined() ? state.read.slice(1, last) : Tensor());
  const auto out = model_.predictions(of_last, x.slice(1, last), position_ + last);
  position_ += x.size(1);
  return out.squeeze(1);
}

}  // namespace geores
