#include "geores/model/transformer/transformer.h"

#include <torch/nn/modules/container/modulelist.h>

#include <cmath>
#include <numbers>

#include "geores/base/error.h"
#include "geores/model/transformer/cached_decoder.h"
#include "geores/model/transformer/recompute.h"
#include "geores/ops/dense/embedding.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/training/chunked_loss.h"
#include "geores/ops/training/loss.h"

namespace geores {

Fields TransformerConfig::fields() {
  return Fields()
      .add("connection", connection, "residual connection, see `geores list`")
      .add("layers", layers, "blocks", {.min = 1, .max = 10000})
      .add("width", width, "values per token", {.min = 1})
      .add("heads", heads, "attention heads", {.min = 1})
      .add("streams", streams, "residual streams", {.min = 1})
      .add("input_start", input_start,
           "factor on the initial embedding and positions: how large states start", {.min = 0})
      .choice("input_map", input_map, {"learned", "isometry"},
              "from vectors to states; isometry: fixed, it keeps lengths and angles")
      .choice(
          "past", past.what, past_names(),
          "a learned share of the first state: the mean of the embeddings so far, the one before, "
          "or both")
      .add("past_gain", past.gain, "how much longer the optimiser's steps on these shares are",
           {.min = 0})
      .choice("output_length", output_length, {"free", "input", "learned"},
              "of predicted vectors; input: that of the vector before; learned: a share of it for "
              "each position, from 0")
      .add("early_weight", early_weight,
           "training errors of vectors count (position)^-this: more where little of a sequence is "
           "known",
           {.min = 0})
      .add("early_steps", early_steps, "early_weight falls to 0 in so many steps; 0: it stays",
           {.min = 0})
      .add("loss_chunk", loss_chunk,
           "tokens whose logits exist at a time in training; 0: all of them", {.min = 0})
      .add("dropout", dropout, "share of values dropped in training", {.min = 0, .max = 0.99})
      .add_all(sublayers.fields());
}

namespace {

// AdamW's steps are as long as the learning rate, which is chosen for weights of 0.02; a share must
// be able to reach 1 from 0.
constexpr double kKeptGain = 10;

// (width, values), columns orthonormal: cosines of half waves over `width` points (discrete cosine
// transform, type II). The constant column is left out if the width allows it, so that states have
// mean 0 and a LayerNorm only scales them.
Tensor isometry(int64_t values, int64_t width) {
  require(values <= width, "transformer",
          "an isometry of {} values needs a width of at least as many, got {}", values, width);
  const auto options = torch::TensorOptions(torch::kFloat64);
  const auto points =
      (torch::arange(width, options) + 0.5) * (std::numbers::pi / static_cast<double>(width));
  const int64_t first = values < width ? 1 : 0;
  auto waves = torch::cos(torch::outer(points, torch::arange(first, first + values, options)));
  return (waves / waves.norm(2, 0, true)).to(torch::kFloat32);
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config) : config_(config) {
  require(config.layers >= 1, "transformer", "layers must be >= 1, got {}", config.layers);
  require(config.context >= 1, "transformer", "context must be >= 1, got {}", config.context);
  const ResidualConfig residual{
      .width = config.width, .streams = config.streams, .options = config.options};
  auto list = register_module("blocks", torch::nn::ModuleList());
  for (int64_t i = 0; i < config.layers; ++i) {
    auto of_block = residual;
    of_block.index = i;
    blocks_.push_back(std::make_shared<Block>(config.connection, of_block, config.sublayers,
                                              config.heads, config.layers));
    list->push_back(blocks_.back());
  }
  const auto width = config.width;
  head_ = blocks_.back()->mlp_residual().make_head();
  if (head_) register_module("head", head_);
  final_norm_ = register_module("final_norm", std::make_shared<LayerNorm>(width));
  if (!config.sublayers.rotary())
    positions_ = register_parameter(
        "positions", torch::randn({config.context, width}) * (kInitialStd * config.input_start));
  if (config.past.what != "none")
    past_ = register_module("past", std::make_shared<Past>(config.past, width));
  if (config.input == "continuous") {
    require(config.input_width >= 1, "transformer", "input_width must be >= 1, got {}",
            config.input_width);
    const auto start = kInitialStd * config.input_start;
    if (config.input_map == "isometry") {
      isometry_ = {register_buffer("input_isometry", isometry(config.input_width, width) * start *
                                                         std::sqrt(static_cast<double>(width))),
                   register_parameter("input_bias", torch::zeros({width}))};
    } else {
      input_ = register_module("input", make_linear(config.input_width, width, true, start));
    }
    output_ = register_module("output", make_linear(width, config.input_width, true));
    if (config.output_length == "learned")
      kept_ = register_parameter("kept_length", torch::zeros({config.context}));
    if (config.early_weight > 0)
      log_positions_ = register_buffer(
          "log_positions",
          torch::arange(1, config.context + 1, torch::kFloat32).log().unsqueeze(-1));
    return;
  }
  require(config.input == "tokens", "transformer", "input must be continuous or tokens, got '{}'",
          config.input);
  require(config.vocabulary >= 1, "transformer", "vocabulary must be >= 1, got {}",
          config.vocabulary);
  require(config.input_map == "learned", "transformer", "input_map = {} is for vectors, not tokens",
          config.input_map);
  require(config.output_length == "free", "transformer",
          "output_length = {} is for vectors, not tokens", config.output_length);
  require(config.early_weight == 0, "transformer", "early_weight is for vectors, not tokens");
  require(
      causal() || config.allow_noncausal, "transformer",
      "{} with these options lets a token see later ones; take --pool causal where it pools, and "
      "--attention causal",
      config.connection);
  embedding_ = register_parameter(
      "embedding", torch::randn({config.vocabulary, width}) * (kInitialStd * config.input_start));
}

const Traits& Transformer::traits() const { return blocks_.front()->attention_residual().traits(); }

std::vector<Residual*> Transformer::residuals() const {
  std::vector<Residual*> all;
  for (const auto& block : blocks_) {
    all.push_back(&block->attention_residual());
    all.push_back(&block->mlp_residual());
  }
  return all;
}

Tensor Transformer::embed(const Tensor& x, int64_t position, PastMemory* memory) const {
  const bool vectors = config_.input == "continuous";
  require(!vectors || (x.dim() == 3 && x.size(2) == config_.input_width), "transformer",
          "expected input (B, T, {}), got {} axes and a last axis of {}", config_.input_width,
          x.dim(), x.dim() > 0 ? x.size(-1) : 0);
  require(vectors || (x.dim() == 2 && x.scalar_type() == torch::kInt64), "transformer",
          "expected token ids (B, T) as int64, got {} axes", x.dim());
  const auto end = position + x.size(1);
  require(end <= config_.context, "transformer",
          "a sequence of {} is longer than the model's context of {}", end, config_.context);
  require(!past_ || position == 0 || memory != nullptr, "transformer",
          "past = {} at position {} needs what came before", config_.past.what, position);
  const auto [weight, bias] = input_end();
  if (past_ && past_->has_previous()) {
    // A bias cancels in the difference that the share multiplies.
    const auto e = past_->with_previous(
        vectors ? linear_map(x, weight) : torch::embedding(embedding_, x), memory);
    if (positions_.defined()) return add_to_each(e, positions_.slice(0, position, end), bias);
    return bias.defined() ? e + bias : e;
  }
  if (!positions_.defined())
    return vectors ? linear_map(x, weight, bias) : torch::embedding(embedding_, x);
  const auto positions = positions_.slice(0, position, end);
  return vectors ? linear_map_and_rows(x, weight, positions, bias)
                 : embedded(embedding_, x, positions);
}

Tensor Transformer::first_state(const Tensor& embedded, PastMemory* memory) const {
  const auto start = past_ ? past_->with_mean(embedded, memory) : embedded;
  const bool half = blocks_.front()->attention_residual().supports_bf16_state();
  return to_state(traits(), half ? in_state_type(start) : start);
}

Tensor Transformer::initial_state(const Tensor& x, int64_t position, PastMemory* memory) const {
  return first_state(embed(x, position, memory), memory);
}

Transformer::End Transformer::input_end() const {
  if (isometry_.weight.defined()) return isometry_;
  if (config_.input == "continuous") return {input_->weight, input_->bias};
  return {embedding_, {}};
}

Transformer::End Transformer::output_end() const {
  if (config_.input == "continuous") return {output_->weight, output_->bias};
  return {embedding_, {}};
}

State Transformer::collapse(const State& state) const {
  return head_ ? State(head_->forward(state.total())) : from_state(traits(), state);
}

Tensor Transformer::outputs(const State& state) const {
  const auto [weight, bias] = output_end();
  return normalized_linear(collapse(state), {.layer = true, .weight = final_norm_->weight()},
                           weight, bias)
      .projected;
}

Tensor Transformer::predictions(const State& state, const Tensor& x, int64_t position) const {
  const auto out = outputs(state);
  if (config_.output_length == "free") return out;
  const auto length = [](const Tensor& v) { return (v.square().sum(-1, true) + 1e-24).sqrt(); };
  const auto factor = length(x) / length(out);
  if (!kept_.defined()) return out * factor;
  const auto kept = kKeptGain * kept_.slice(0, position, position + x.size(1)).unsqueeze(-1);
  return out * (1 + kept * (factor - 1));
}

Tensor Transformer::squared_error(const Tensor& x, const Tensor& target, Trace& trace,
                                  const Dropout& dropout) {
  const SerialProducts serial;
  if (config_.output_length != "free")
    return mean_squared_error(predictions(final_state(x, trace, dropout), x), target);
  const auto [weight, bias] = output_end();
  return normalized_linear_error(collapse(final_state(x, trace, dropout)),
                                 {.layer = true, .weight = final_norm_->weight()}, weight, bias,
                                 target);
}

Tensor Transformer::forward(const Tensor& x, Trace& trace) {
  const SerialProducts serial;
  return predictions(final_state(x, trace), x);
}

std::vector<Block::Folded> Transformer::folded_blocks() const {
  std::vector<Folding> foldings;
  for (const auto& block : blocks_) {
    foldings.push_back(block->attention_folding());
    foldings.push_back(block->mlp_folding());
  }
  const auto weights = folded_together(foldings);
  std::vector<Block::Folded> all;
  for (size_t i = 0; i < weights.size(); i += 2) all.push_back({weights[i], weights[i + 1]});
  return all;
}

State Transformer::final_state(const Tensor& x, Trace& trace, const Dropout& dropout) {
  State state = dropout.active() ? first_state(dropped(embed(x, 0), dropout, 0)) : initial_state(x);
  if (recompute_ != Recompute::nothing && torch::GradMode::is_enabled() && !trace.probing())
    return forward_recomputed(blocks_, recompute_, state.total(), trace, dropout);
  if (dropout.active()) {
    for (const auto& block : blocks_)
      state = block->advance(state, trace, block->branches(dropout));
    return state;
  }
  const auto folded = folded_blocks();
  for (size_t i = 0; i < blocks_.size(); ++i)
    state = blocks_[i]->advance(state, trace, nullptr, &folded[i]);
  return state;
}

InputShape Transformer::input() const {
  const bool vectors = config_.input == "continuous";
  return {.length = config_.context,
          .width = vectors ? config_.input_width : 1,
          .vocabulary = vectors ? 0 : config_.vocabulary};
}

void Transformer::set_pass(const PassPosition& pass) {
  step_ = pass.step;
  dropout_ = {
      .rate = config_.dropout, .seed = pass.seed, .step = pass.step, .first_row = pass.first_row};
}

Objective Transformer::objective(const Batch& batch, Carry&) {
  Trace trace;
  if (are_classes(batch.y)) {
    const auto loss = cross_entropy(batch, trace, dropout_);
    return {loss, [y = batch.y] { return scored_terms(y); }, trace.loss()};
  }
  const auto error = log_positions_.defined() ? early_error(batch, trace)
                                              : squared_error(batch.x, batch.y, trace, dropout_);
  return {error, [y = batch.y] { return scored_terms(y); }, trace.loss()};
}

Tensor Transformer::early_error(const Batch& batch, Trace& trace) {
  const SerialProducts serial;
  auto logs = config_.early_weight * log_positions_.slice(0, 0, batch.x.size(1));
  if (config_.early_steps > 0 && step_.defined())
    logs = logs * (1 - step_.to(logs.scalar_type()) / config_.early_steps).clamp_min(0);
  const auto weights = (-logs).exp(), roots = (weights / weights.mean()).sqrt();
  const auto predicted = predictions(final_state(batch.x, trace, dropout_), batch.x);
  return mean_squared_error(predicted * roots, batch.y * roots);
}

// With many tokens the logits would be the largest tensor of a step, and stay until the backward
// pass.
Tensor Transformer::cross_entropy(const Batch& batch, Trace& trace, const Dropout& dropout) {
  const SerialProducts serial;
  const auto state = final_state(batch.x, trace, dropout);
  if (config_.loss_chunk == 0 || batch.y.numel() <= config_.loss_chunk)
    return task_loss(outputs(state), batch.y);
  const auto features = final_norm_->forward_and_skip(collapse(state)).normalized;
  return chunked_cross_entropy(features.flatten(0, 1), embedding_, batch.y.flatten(),
                               config_.loss_chunk);
}

Objective Transformer::evaluate(const Batch& batch) {
  if (!are_classes(batch.y)) return Model::evaluate(batch);
  const torch::NoGradGuard no_grad;
  Trace trace;
  return {cross_entropy(batch, trace), [y = batch.y] { return scored_terms(y); }};
}

Tensor Transformer::weighted_loss(const Batch& batch, const Tensor& weights) {
  const torch::NoGradGuard no_grad;
  if (are_classes(batch.y)) return Model::weighted_loss(batch, weights);
  Trace trace;
  return weighted_task_loss(forward(batch.x, trace), batch.y, weights);
}

std::vector<Tensor> Transformer::manifold_parameters() const {
  std::vector<Tensor> all;
  for (const auto* residual : residuals())
    for (const auto& parameter : residual->manifold_parameters()) all.push_back(parameter);
  return all;
}

void Transformer::manifold_step() {
  for (auto* residual : residuals()) residual->manifold_step();
}

std::vector<Tensor> Transformer::decay_exceptions() const {
  std::vector<Tensor> all;
  for (const auto* residual : residuals())
    for (const auto& parameter : residual->decay_exceptions()) all.push_back(parameter);
  return all;
}

std::unique_ptr<Decoder> Transformer::decoder(int64_t batch) {
  return std::make_unique<CachedDecoder>(*this, batch);
}

std::optional<ResidualStack> Transformer::residual_stack() {
  if (traits().reads_late)
    return std::nullopt;  // its stages are not functions of the streams alone
  ResidualStack stack{.connection = config_.connection,
                      .stages = {},
                      .initial_state = [this](const Tensor& x) { return initial_state(x); },
                      .collapse = [this](const Tensor& state) { return collapse(state).total(); }};
  // A prediction that also depends on its input is not a function of the state alone.
  if (config_.output_length == "free")
    stack.predict = [this](const Tensor& state) { return outputs(state); };
  for (int64_t i = 0; i < config_.layers; ++i) {
    auto& block = *blocks_[static_cast<size_t>(i)];
    stack.stages.push_back(
        {fmt::format("block {} attention", i), i, &block.attention_residual(),
         [branch = block.attention_branch()](const Tensor& h) { return branch(h); }});
    stack.stages.push_back({fmt::format("block {} mlp", i), i, &block.mlp_residual(),
                            [branch = block.mlp_branch()](const Tensor& h) { return branch(h); }});
  }
  return stack;
}

nlohmann::json Transformer::description() const { return {{"heads", blocks_.front()->heads()}}; }

}  // namespace geores
