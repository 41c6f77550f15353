#include "geores/model/recursive/recursive.h"

#include <cmath>
#include <utility>

#include "geores/base/error.h"
#include "geores/model/recursive/halting.h"
#include "geores/model/recursive/puzzle_loss.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

constexpr int64_t kNotScoredLabel = -1;
constexpr double kLearnedPositionScale = 0.707106781;  // TRM's constant for 1/√2
constexpr double kInitialQBias = -5;                   // halting starts improbable

// Identifiers (B) and tokens (B, T) of a batch.
struct Puzzles {
  Tensor identifiers, tokens;
};

Puzzles split_batch(const Tensor& x, int64_t cells) {
  require(x.dim() == 2 && (x.size(1) == cells || x.size(1) == cells + 1), "recursive",
          "a batch has {} columns, expected {} cells and perhaps an identifier", x.size(-1), cells);
  if (x.size(1) == cells) return {torch::zeros({x.size(0)}, x.options()), x};
  return {x.select(1, 0), x.slice(1, 1)};
}

// Selects `value` for the chosen rows and old elsewhere. It never blends, because old may be NaN.
Tensor chosen(const Tensor& rows, const Tensor& value, const Tensor& old) {
  std::vector<int64_t> shape(static_cast<size_t>(old.dim()), 1);
  shape[0] = -1;
  return torch::where(rows.view(shape), value, old);
}

class EmbeddingProduct : public torch::autograd::Function<EmbeddingProduct> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& weight,
                        const Tensor& ids) {
    context->save_for_backward({ids});
    context->saved_data["rows"] = weight.size(0);
    auto shape = ids.sizes().vec();
    shape.push_back(weight.size(1));
    return weight.index_select(0, ids.reshape({-1})).view(shape);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto ids = context->get_saved_variables()[0].reshape({-1});
    const auto rows = context->saved_data["rows"].toInt();
    const auto gradient = gradients[0].reshape({ids.numel(), -1});
    const auto units = torch::arange(rows, ids.options()).unsqueeze(1) == ids.unsqueeze(0);
    return {units.to(gradient.scalar_type()).mm(gradient), Tensor()};
  }
};

}  // namespace

Tensor embedding_of(const Tensor& weight, const Tensor& ids) {
  return EmbeddingProduct::apply(weight, ids);
}

Recursive::Recursive(const RecursiveOptions& options, const InputShape& input)
    : options_(options), shape_(input), positions_(options.prefix_positions() + input.length) {
  options.check();
  const auto width = options.width, vocabulary = input.vocabulary;
  const auto by_width = 1 / std::sqrt(static_cast<double>(width));
  tokens_ = register_parameter("tokens", truncated_normal({vocabulary, width}, by_width));
  if (options.positions == "learned")
    learned_positions_ =
        register_parameter("positions", truncated_normal({positions_, width}, by_width));
  for (int64_t i = 0; i < options.layers; ++i)
    layers_.push_back(register_module("layers" + std::to_string(i),
                                      std::make_shared<RecursiveLayer>(options, positions_, i)));
  lm_head_ = register_parameter("lm_head", truncated_normal({vocabulary, width}, by_width));
  q_weight_ = register_parameter("q_head", torch::zeros({2, width}));
  q_bias_ = register_parameter("q_bias", torch::full({2}, kInitialQBias));
  answer_start_ = register_buffer("answer_start", truncated_normal({options.state_width()}, 1));
  scratch_start_ = register_buffer("scratch_start", truncated_normal({options.state_width()}, 1));
  table_ = register_buffer("table", torch::zeros({options.identifiers, options.table_values()}));
}

Recursive::States Recursive::States::kept() const {
  return {.answer = in_state_type(answer), .scratch = in_state_type(scratch)};
}

Recursive::States Recursive::initial_states(int64_t rows) const {
  const auto all = [&](const Tensor& start) { return start.expand({rows, positions_, -1}); };
  return {.answer = all(answer_start_), .scratch = all(scratch_start_)};
}

Tensor Recursive::embedded(const Tensor& tokens, const Tensor& table_rows) const {
  const auto prefix = options_.prefix_positions(), width = options_.width;
  const auto padded = torch::constant_pad_nd(table_rows, {0, prefix * width - table_rows.size(1)});
  const auto scale = std::sqrt(static_cast<double>(width));
  const auto all = torch::cat({padded.view({-1, prefix, width}), embedding_of(tokens_, tokens)}, 1);
  const auto e = learned_positions_.defined()
                     ? scale * kLearnedPositionScale * (all + learned_positions_)
                     : scale * all;
  const auto state = in_state_type(e);
  return options_.expands() ? state.repeat({1, 1, options_.streams}) : state;
}

const RotaryTables& Recursive::rotary() {
  if (options_.positions != "rotary" || options_.mlp_t) return rotary_;
  const auto& now = rotary_.cosine;
  if (!now.defined() || now.scalar_type() != tokens_.scalar_type() ||
      now.device() != tokens_.device())
    rotary_ = rotary_tables(positions_, options_.head_width(), options_.rope_theta, tokens_);
  return rotary_;
}

StateAndProduct Recursive::started(const Tensor& state, const Tensor& input) const {
  const auto sum = state + input;
  return options_.mixes() ? StateAndProduct{sum, Tensor()} : with_product(sum);
}

PostNormed Recursive::net(StateAndProduct h, const Tensor& added, bool keeps_state, Trace& trace) {
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    const auto made = layers_[i]->forward(h, rotary(), trace);
    h = {made.next, made.product};
  }
  return layers_.back()->forward(h, rotary(), trace, added, keeps_state);
}

// Each application starts from its state plus an input; the previous application computes that sum.
void Recursive::cycle(States& states, const Tensor& e, Trace& early, Trace& last) {
  const auto question = states.answer + e;
  auto h = started(states.scratch, question);
  for (int64_t i = 1; i <= options_.l_cycles; ++i) {
    const bool ends = i == options_.l_cycles;
    const auto made = net(h, ends ? states.answer : question, /*keeps_state=*/ends, early);
    if (ends) states.scratch = made.state;
    h = {made.next, made.product};
  }
  states.answer = net(h, {}, /*keeps_state=*/true, last).state;
}

Tensor Recursive::mean_of_streams(const Tensor& state) const {
  return options_.expands() ? split_streams(state, options_.streams)
                                  .mean(-2, /*keepdim=*/false, full_type(state.scalar_type()))
                            : state;
}

Recursive::Answer Recursive::pass(States& states, const Tensor& e, Trace& trace, Trace* probes) {
  {
    const torch::NoGradGuard no_grad;
    Trace unused;
    auto& seen = probes != nullptr ? *probes : unused;
    for (int64_t i = 1; i < options_.h_cycles; ++i) cycle(states, e, seen, seen);
  }
  Trace unused;
  // EΔ's code only counts the gate loss of the last call.
  auto& early = probes != nullptr ? *probes : options_.gate_scale == "reference" ? unused : trace;
  cycle(states, e, early, probes != nullptr ? *probes : trace);
  const auto answer = mean_of_streams(states.answer);
  const auto type = full_type(states.answer.scalar_type());
  const Answer result{
      .logits = linear_map_to(answer.slice(1, options_.prefix_positions()), lm_head_, {}, type),
      .q = torch::linear(in_full_type(answer.select(1, 0)), q_weight_, q_bias_)};
  states = {.answer = states.answer.detach(), .scratch = states.scratch.detach()};
  return result;
}

Recursive::Answer Recursive::solve(const Tensor& tokens, const Tensor& identifiers,
                                   const AfterPass& after, Trace* probes) {
  const torch::NoGradGuard no_grad;
  auto states = initial_states(tokens.size(0)).kept();
  const auto e = embedded(tokens, table_.index_select(0, identifiers));
  Answer answer;
  for (int64_t step = 0; step < options_.act_steps; ++step) {
    Trace trace;
    answer = pass(states, e, trace, step + 1 == options_.act_steps ? probes : nullptr);
    if (after) after(step, answer);
  }
  return answer;
}

Tensor Recursive::predict(const Tensor& x, Trace& trace) {
  const auto puzzles = split_batch(x, shape_.length);
  return solve(puzzles.tokens, puzzles.identifiers, {}, trace.probing() ? &trace : nullptr).logits;
}

Objective Recursive::evaluate(const Batch& batch) {
  const auto puzzles = split_batch(batch.x, shape_.length);
  const auto answer = solve(puzzles.tokens, puzzles.identifiers);
  const auto scores = score_rows(answer.logits, answer.q.select(1, 0), batch.y);
  return {(scores.lm_loss + 0.5 * scores.q_loss).mean(),
          [rows = batch.x.size(0)] { return torch::tensor(rows, torch::kInt64); }};
}

Carry Recursive::initial_carry(int64_t rows, int64_t seed) const {
  const auto counts = torch::TensorOptions(torch::kInt64).device(tokens_.device());
  const auto states = torch::zeros({rows, positions_, options_.state_width()},
                                   tokens_.options().requires_grad(false));
  Carry carry;
  carry.add("answer", states);
  carry.add("scratch", states);
  carry.add("steps", torch::zeros({rows}, counts));
  carry.add("halted", torch::ones({rows}, counts.dtype(torch::kBool)));
  carry.add("inputs", torch::zeros({rows, shape_.length}, counts));
  carry.add("labels", torch::full({rows, shape_.length}, kNotScoredLabel, counts));
  carry.add("identifiers", torch::zeros({rows}, counts));
  carry.add("draws", first_draws(rows, seed).to(tokens_.device()));
  carry.add("metrics", torch::zeros({rows, kMetrics}, counts.dtype(torch::kFloat64)));
  return carry;
}

// Rows that have halted take the next sequences of the batch; the others ignore it.
void Recursive::refill(const Batch& batch, Carry& carry) const {
  const auto puzzles = split_batch(batch.x, shape_.length);
  const auto& halted = carry.at("halted");
  const auto set = [&](const char* name, const Tensor& value) {
    carry.set(name, chosen(halted, value, carry.at(name)));
  };
  const auto start = initial_states(batch.x.size(0));
  set("answer", start.answer);
  set("scratch", start.scratch);
  set("inputs", puzzles.tokens);
  set("labels", batch.y);
  set("identifiers", puzzles.identifiers);
  set("steps", torch::zeros_like(carry.at("steps")));
}

Tensor Recursive::gate_loss(const Trace& trace, int64_t rows) const {
  const auto sum = trace.loss();
  if (!sum.defined()) return sum;
  const auto calls = options_.gate_scale == "reference" ? rows : options_.l_cycles + 1;
  return sum / static_cast<double>(calls);
}

Recursive::Step Recursive::act_step(const Batch& batch, Carry& carry) {
  {
    const torch::NoGradGuard no_grad;
    refill(batch, carry);
  }
  // Copies: the carry is overwritten before the backward pass reads them.
  const auto inputs = carry.at("inputs").clone(), labels = carry.at("labels").clone();
  const auto identifiers = carry.at("identifiers").clone();
  const auto steps = carry.at("steps") + 1;
  const auto table_rows = table_.index_select(0, identifiers).requires_grad_(trains_table_);
  if (trains_table_) table_rows_.push_back({identifiers, table_rows});

  // The carry is float32 for every type of the state, so a checkpoint serves every precision.
  auto states = States{.answer = carry.at("answer"), .scratch = carry.at("scratch")}.kept();
  const auto e = embedded(inputs, table_rows);
  Trace trace;
  const auto answer = pass(states, e, trace);
  const auto q_halt = answer.q.select(1, 0), q_continue = answer.q.select(1, 1);
  const auto scores = score_rows(answer.logits, q_halt, labels);
  auto losses = scores.lm_loss + 0.5 * scores.q_loss;

  auto wants = q_halt.detach() > 0;
  if (options_.train_continue) {
    const torch::NoGradGuard no_grad;
    auto later_states = states;
    Trace unused;
    const auto later = pass(later_states, e, unused).q.to(torch::kFloat64);
    const auto value = torch::sigmoid(
        torch::where(steps >= options_.act_steps, later.select(1, 0), later.amax(1)));
    const torch::AutoGradMode gradients(true);
    losses = losses + 0.5 * torch::binary_cross_entropy_with_logits(
                                q_continue.to(torch::kFloat64), value, {}, {}, at::Reduction::None);
    wants = q_halt.detach() > q_continue.detach();
  }

  const torch::NoGradGuard no_grad;
  const auto least = exploration_minimum(carry.at("draws"), options_.explore, options_.act_steps);
  const auto halted = halted_after(steps, wants, least, options_.act_steps);
  const auto counted = halted.to(torch::kFloat64) * scores.scored;
  const auto measured = torch::stack(
      {scores.lm_loss.detach(), scores.q_loss.detach(), counted, counted * scores.right_cells,
       counted * scores.exact, counted * scores.q_right, counted * steps.to(torch::kFloat64)},
      1);
  carry.set("answer", in_full_type(states.answer));
  carry.set("scratch", in_full_type(states.scratch));
  carry.set("steps", steps);
  carry.set("halted", halted);
  carry.set("draws", carry.at("draws") + 1);
  carry.set("metrics", carry.at("metrics") + measured);

  return {.answer = answer, .scores = scores, .losses = losses, .trace = std::move(trace)};
}

Objective Recursive::objective(const Batch& batch, Carry& carry) {
  const auto rows = batch.x.size(0);
  const auto step = act_step(batch, carry);
  return {step.losses.mean().to(tokens_.scalar_type()),
          [rows] { return torch::tensor(rows, torch::kInt64); }, gate_loss(step.trace, rows)};
}

nlohmann::json Recursive::metrics_of(const Tensor& sums, int64_t passes) const {
  const auto sum = [&](Metric metric) { return sums[metric].item<double>(); };
  const auto count = sum(kCount), all = static_cast<double>(passes);
  nlohmann::json line = {
      {"lm_loss", sum(kLmLoss) / all}, {"q_loss", sum(kQLoss) / all}, {"finished_rows", count}};
  if (count > 0)
    line.update({{"cells", sum(kRightCells) / count},
                 {"exact", sum(kExact) / count},
                 {"q_halt_accuracy", sum(kQRight) / count},
                 {"act_steps", sum(kSteps) / count}});
  return line;
}

Tensor Recursive::train_table() {
  trains_table_ = true;
  return table_;
}

std::vector<Model::TableRows> Recursive::take_table_rows() {
  return std::exchange(table_rows_, {});
}

void Recursive::require_parts(int64_t parts, int64_t processes) const {
  const bool splits = options_.gate_scale != "reference";
  require(parts == 1 || splits, "train",
          "gate_scale reference depends on the size of a batch: it has no micro-batches");
  require(processes == 1 || splits, "train",
          "gate_scale reference depends on the size of a batch: it trains in one process");
}

std::vector<Tensor> Recursive::manifold_parameters() const {
  std::vector<Tensor> all;
  for (const auto& layer : layers_)
    for (const auto* mixer : layer->mixers())
      for (const auto& parameter : mixer->manifold_parameters()) all.push_back(parameter);
  return all;
}

void Recursive::manifold_step() {
  for (const auto& layer : layers_)
    for (auto* mixer : layer->mixers()) mixer->manifold_step();
}

nlohmann::json Recursive::description() const {
  return {{"positions", positions_},
          {"state_width", options_.state_width()},
          {"sublayer_width", options_.sublayer_width()},
          {"table_values", table_.numel()}};
}

}  // namespace geores
