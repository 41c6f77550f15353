#include "lab/diagnostics/mixer_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "geores/base/error.h"
#include "geores/modules/seeding.h"
#include "geores/ops/streams/streams.h"
#include "lab/diagnostics/measures.h"

namespace geores {
namespace {

using Stage = ResidualStack::Stage;

Tensor probe_of(const Trace& trace, const std::string& name) {
  for (const auto& [key, value] : trace.probes())
    if (key == name) return value;
  return {};
}

// On the model's device and, for vectors, in its type.
Tensor moved_to(const Model& model, const Tensor& x) {
  const auto parameter = model.parameters().front();
  const auto there = x.to(parameter.device());
  return model.input().tokens() ? there : there.to(parameter.scalar_type());
}

// The stack, if its operators mix two or more streams.
std::optional<ResidualStack> mixing_stack(Model& model) {
  auto stack = model.residual_stack();
  if (!stack || stack->stages.empty()) return std::nullopt;
  const auto& traits = stack->traits();
  if (traits.axis != OperatorAxis::streams || traits.layout == StreamLayout::whole ||
      traits.streams < 2)
    return std::nullopt;
  return stack;
}

Tensor streams_of(const Traits& traits, const Tensor& state) {
  return state.reshape({state.size(0), state.size(1), traits.streams, -1});
}

// (B or 1, T or 1, n, n) -> (B, P, n, n) double on the CPU.
Tensor chosen(const Tensor& mixers, int64_t sequences, const Tensor& positions) {
  const auto n = mixers.size(-1);
  const auto at =
      mixers.size(1) == 1 ? mixers : mixers.index_select(1, positions.to(mixers.device()));
  return at.expand({sequences, positions.size(0), n, n}).to(torch::kCPU, torch::kFloat64);
}

MeanAndDeviation spread_of(const Tensor& values) {
  return {values.mean().item<double>(), values.std(/*unbiased=*/false).item<double>()};
}

std::vector<double> values_of(const Tensor& tensor) {
  const auto flat = tensor.to(torch::kCPU, torch::kFloat64).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

MixerLayer describe_layer(const std::string& name, const Tensor& mixers, const Tensor& composite) {
  const auto sigma = singular_values(composite);
  const auto flat = [](const Tensor& t) { return t.flatten(0, -3); };
  return {.name = name,
          .row_sums = five_quantiles(mixers.sum(-1)),
          .column_sums = five_quantiles(mixers.sum(-2)),
          .row_maxima = quantiles(row_maxima(mixers), {0.1, 0.5, 0.9}),
          .diagonal = diagonal_share(mixers),
          .forward_gain = forward_gain(mixers).mean().item<double>(),
          .backward_gain = backward_gain(mixers).mean().item<double>(),
          .mean = values_of(flat(mixers).mean(0)),
          .composite_row_sums = five_quantiles(composite.sum(-1)),
          .composite_column_sums = five_quantiles(composite.sum(-2)),
          .composite_norm = spread_of(sigma.select(-1, 0)),
          .composite_second = spread_of(sigma.select(-1, 1)),
          .composite_least = spread_of(sigma.select(-1, -1)),
          .composite_forward_gain = forward_gain(composite).mean().item<double>(),
          .composite_backward_gain = backward_gain(composite).mean().item<double>(),
          .composite_mean = values_of(flat(composite).mean(0))};
}

nlohmann::json to_json(const MeanAndDeviation& spread) {
  return {{"mean", spread.mean}, {"deviation", spread.deviation}};
}

std::string listed(const std::vector<double>& values) {
  std::string text;
  for (const auto value : values) text += fmt::format("{}{:.3f}", text.empty() ? "" : " ", value);
  return text;
}

std::string text_of(const MeanAndDeviation& spread) {
  return fmt::format("{:.3f} ± {:.3f}", spread.mean, spread.deviation);
}

// Runs the stack; `replace(l, H_l)` gives the matrices instead of H_l, or nothing.
template <class Replace>
Tensor run_replaced(const ResidualStack& stack, Tensor state, Replace&& replace) {
  for (size_t l = 0; l < stack.stages.size(); ++l) {
    Trace trace(/*probing=*/true);
    const auto next = stack.stages[l].residual->forward(state, stack.stages[l].sublayer, trace);
    const auto mixers = probe_of(trace, "operator");
    const auto other = replace(l, mixers);
    state = other.defined() ? next + mix_streams(other - mixers, state) : next;
  }
  return state;
}

}  // namespace

std::optional<MixerReport> describe_mixers(Model& model, const Tensor& x,
                                           const MixerOptions& options) {
  const torch::NoGradGuard no_grad;
  const auto stack = mixing_stack(model);
  if (!stack) return std::nullopt;
  const auto data = moved_to(model, x.slice(0, 0, options.sequences));
  const auto length = data.size(1), count = std::min(options.positions, length);
  const auto positions = torch::linspace(0, static_cast<double>(length - 1), count, torch::kFloat64)
                             .round()
                             .to(torch::kInt64);
  const auto& traits = stack->traits();
  MixerReport report;
  report.streams = traits.streams;
  report.matrices = data.size(0) * count;
  auto state = stack->initial_state(data);
  Tensor composite;
  std::vector<Tensor> all;
  for (const auto& stage : stack->stages) {
    Trace trace(/*probing=*/true);
    const auto next = stage.residual->forward(state, stage.sublayer, trace);
    const auto probed = probe_of(trace, "operator");
    if (!probed.defined()) return std::nullopt;
    const auto mixers = chosen(probed, data.size(0), positions);
    require(torch::isfinite(mixers).all().item<bool>(), "inspect",
            "the mixer of {} has NaN or infinite values: the model has diverged", stage.name);
    composite = composite.defined() ? mixers.matmul(composite) : mixers;
    auto layer = describe_layer(stage.name, mixers, composite);
    const auto streams = streams_of(traits, state);
    layer.cosine_before = stream_cosine(streams).mean().item<double>();
    layer.cosine = stream_cosine(mix_streams(probed, streams)).mean().item<double>();
    report.layers.push_back(std::move(layer));
    all.push_back(mixers);
    state = next;
  }
  const auto together = torch::stack(all);
  report.row_maxima = quantiles(row_maxima(together), {0.1, 0.5, 0.9});
  report.diagonal = diagonal_share(together);
  for (const auto& third : together.chunk(3, 0))
    report.thirds.push_back({entry_histogram(third), negative_share(third)});
  return report;
}

nlohmann::json MixerLayer::to_json() const {
  return {{"name", name},
          {"row_sums", row_sums},
          {"column_sums", column_sums},
          {"row_maxima", row_maxima},
          {"diagonal_share", diagonal},
          {"forward_gain", forward_gain},
          {"backward_gain", backward_gain},
          {"cosine_before", cosine_before},
          {"cosine", cosine},
          {"mean", mean},
          {"composite_row_sums", composite_row_sums},
          {"composite_column_sums", composite_column_sums},
          {"composite_norm", geores::to_json(composite_norm)},
          {"composite_second", geores::to_json(composite_second)},
          {"composite_least", geores::to_json(composite_least)},
          {"composite_forward_gain", composite_forward_gain},
          {"composite_backward_gain", composite_backward_gain},
          {"composite_mean", composite_mean}};
}

nlohmann::json MixerReport::to_json() const {
  nlohmann::json object = {{"streams", streams},
                           {"matrices", matrices},
                           {"row_maxima", row_maxima},
                           {"diagonal_share", diagonal},
                           {"layers", nlohmann::json::array()},
                           {"thirds", nlohmann::json::array()}};
  for (const auto& layer : layers) object["layers"].push_back(layer.to_json());
  for (const auto& third : thirds)
    object["thirds"].push_back({{"entries", third.entries}, {"negative", third.negative}});
  return object;
}

std::vector<Table> MixerReport::tables() const {
  Table single{
      fmt::format("Mixers, {} matrices each. Sums: minimum, 1 %, 50 %, 99 %, maximum. Row maximum: "
                  "10 %, 50 %, 90 %. Diagonal: share of matrices whose rows are all largest on the "
                  "diagonal. Cosine of two streams before and after the mixer.",
                  matrices),
      {"mixer", "row sums", "column sums", "row maximum", "diagonal", "gain forward", "backward",
       "cosine before", "after"},
      {}};
  Table products{"Products of one token's mixers up to each depth.",
                 {"up to", "row sums", "column sums", "sigma 1", "sigma 2", "sigma min",
                  "gain forward", "backward"},
                 {}};
  for (const auto& layer : layers) {
    single.rows.push_back(
        {layer.name, listed(layer.row_sums), listed(layer.column_sums), listed(layer.row_maxima),
         fmt::format("{:.3f}", layer.diagonal), fmt::format("{:.3f}", layer.forward_gain),
         fmt::format("{:.3f}", layer.backward_gain), fmt::format("{:.3f}", layer.cosine_before),
         fmt::format("{:.3f}", layer.cosine)});
    products.rows.push_back({layer.name, listed(layer.composite_row_sums),
                             listed(layer.composite_column_sums), text_of(layer.composite_norm),
                             text_of(layer.composite_second), text_of(layer.composite_least),
                             fmt::format("{:.3f}", layer.composite_forward_gain),
                             fmt::format("{:.3f}", layer.composite_backward_gain)});
  }
  return {single, products};
}

nlohmann::json MixerUse::to_json() const {
  return {{"as_it_is", as_it_is}, {"identity", identity}, {"mean", mean}, {"uniform", uniform}};
}

std::optional<MixerUse> measure_use(Model& model, const std::vector<Batch>& batches) {
  const torch::NoGradGuard no_grad;
  const auto stack = mixing_stack(model);
  if (!stack || stack->traits().layout != StreamLayout::expand || !stack->predict)
    return std::nullopt;
  require(!batches.empty(), "use", "needs at least one batch");
  std::vector<Tensor> sums(stack->stages.size());
  double tokens = 0;
  // The mean over all scored terms of all batches.
  const auto loss_with = [&](const std::function<Tensor(size_t, const Tensor&)>& replace) {
    double sum = 0, terms = 0;
    for (const auto& batch : batches) {
      const auto state =
          run_replaced(*stack, stack->initial_state(moved_to(model, batch.x)), replace);
      const auto prediction = stack->predict(state);
      auto y = batch.y.to(prediction.device());
      if (y.is_floating_point()) y = y.to(prediction.scalar_type());
      const Trace none;
      const auto objective = prediction_objective(prediction, y, none);
      const auto count = static_cast<double>(objective.terms().item<int64_t>());
      sum += objective.mean().item<double>() * count;
      terms += count;
    }
    return sum / terms;
  };
  MixerUse use;
  use.as_it_is = loss_with([&](size_t l, const Tensor& mixers) {
    const auto sum = mixers.to(torch::kFloat64).flatten(0, 1).sum(0);
    sums[l] = sums[l].defined() ? sums[l] + sum : sum;
    if (l == 0) tokens += static_cast<double>(mixers.size(0) * mixers.size(1));
    return Tensor();
  });
  const auto n = stack->traits().streams;
  use.identity = loss_with([&](size_t, const Tensor& mixers) {
    return torch::eye(n, mixers.options()).expand_as(mixers);
  });
  use.mean = loss_with([&](size_t l, const Tensor& mixers) {
    return (sums[l] / tokens).to(mixers.dtype()).expand_as(mixers);
  });
  use.uniform = loss_with([&](size_t, const Tensor& mixers) {
    return torch::full_like(mixers, 1.0 / static_cast<double>(n));
  });
  return use;
}

namespace {

// Near the identity the gradients that should vanish are differences of large numbers: in float32
// they would be rounding. Converted back, float32 weights are unchanged.
class InDouble {
 public:
  explicit InDouble(Model& model)
      : model_(model), before_(model.parameters().front().scalar_type()) {
    model_.to(torch::kFloat64);
  }
  ~InDouble() { model_.to(before_); }
  InDouble(const InDouble&) = delete;
  InDouble& operator=(const InDouble&) = delete;

 private:
  Model& model_;
  torch::ScalarType before_;
};

// Of H_pre: the weights with which a sublayer reads the streams.
std::vector<Tensor> pre_parameters(const Residual& residual) {
  std::vector<Tensor> found;
  for (const auto& item : residual.named_parameters())
    if (item.key().starts_with("pre.")) found.push_back(item.value());
  return found;
}

}  // namespace

std::optional<InertMixers> measure_inert(Model& model, const Tensor& x) {
  const InDouble in_double(model);
  const auto stack = mixing_stack(model);
  if (!stack || stack->stages.size() < 3 || !stack->predict) return std::nullopt;
  const torch::AutoGradMode with_gradient(true);
  std::vector<std::vector<Tensor>> mixers, pres;
  for (const auto& stage : stack->stages) {
    mixers.push_back(stage.residual->mixer_parameters());
    pres.push_back(pre_parameters(*stage.residual));
    if (mixers.back().empty()) return std::nullopt;
    for (const auto& part : mixers.back())
      if (!part.requires_grad()) return std::nullopt;  // frozen
  }
  auto state = stack->initial_state(moved_to(model, x));
  for (const auto& stage : stack->stages) {
    Trace trace;
    state = stage.residual->forward(state, stage.sublayer, trace);
  }
  const auto prediction = stack->predict(state);
  const auto cotangent = with_seed(17, [&] {
                           return torch::randn(prediction.sizes(), torch::kFloat64);
                         }).to(prediction.device(), prediction.scalar_type());
  const auto loss = (prediction * cotangent).sum();
  // The largest gradient of each connection's part.
  const auto largest = [&](const std::vector<std::vector<Tensor>>& parts) {
    std::vector<double> all;
    for (const auto& part : parts) {
      all.push_back(0);
      for (const auto& gradient :
           torch::autograd::grad({loss}, part, {}, /*retain_graph=*/true, false, true))
        if (gradient.defined())
          all.back() = std::max(all.back(), gradient.abs().max().item<double>());
    }
    return all;
  };
  const auto of_mixers = largest(mixers);
  const auto others = *std::max_element(of_mixers.begin() + 1, of_mixers.end() - 1);
  if (!(others > 0)) return std::nullopt;
  InertMixers inert{.first = of_mixers.front() / others, .last = of_mixers.back() / others};
  const auto trained = [](const std::vector<Tensor>& part) {
    return !part.empty() && std::ranges::all_of(part, &Tensor::requires_grad);
  };
  if (!std::ranges::all_of(pres, trained)) return inert;
  const auto of_pres = largest(pres);
  if (const auto most = *std::max_element(of_pres.begin() + 1, of_pres.end()); most > 0)
    inert.first_pre = of_pres.front() / most;
  return inert;
}

nlohmann::json RankReport::to_json() const {
  return {{"windows", windows},     {"plain", plain},   {"centred", centred},
          {"collapsed", collapsed}, {"ratio", ratio()}, {"slope", slope()}};
}

double RankReport::ratio() const { return plain.back() / plain.front(); }

double RankReport::slope() const {
  const auto count = static_cast<double>(plain.size());
  const auto middle = (count - 1) / 2;
  double above = 0, below = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const auto offset = static_cast<double>(i) - middle;
    above += offset * std::log(plain[i]);
    below += offset * offset;
  }
  return below > 0 ? above / below : 0;
}

std::optional<RankReport> describe_ranks(Model& model, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  const auto stack = model.residual_stack();
  if (!stack || stack->stages.empty()) return std::nullopt;
  RankReport report;
  report.windows = x.size(0);
  const bool several = stack->collapse && stack->traits().layout == StreamLayout::expand;
  auto state = stack->initial_state(moved_to(model, x));
  const auto add = [&] {
    const auto tokens = state.flatten(2);
    report.plain.push_back(relative_rank(tokens).mean().item<double>());
    report.centred.push_back(
        relative_rank(tokens - tokens.mean(1, /*keepdim=*/true)).mean().item<double>());
    report.collapsed.push_back(
        several ? relative_rank(stack->collapse(state).flatten(2)).mean().item<double>()
                : report.plain.back());
  };
  add();
  for (size_t l = 0; l < stack->stages.size(); ++l) {
    Trace trace;
    state = stack->stages[l].residual->forward(state, stack->stages[l].sublayer, trace);
    if (l + 1 == stack->stages.size() || stack->stages[l + 1].block != stack->stages[l].block)
      add();
  }
  return report;
}

std::vector<BetaReport> describe_betas(Model& model, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  const auto stack = model.residual_stack();
  if (!stack || stack->stages.empty()) return {};
  std::vector<std::vector<Tensor>> values(stack->stages.size());
  // A few sequences at a time: the probe "operator", which comes along, may be D × D for each token.
  for (const auto& some : moved_to(model, x).split(4)) {
    auto state = stack->initial_state(some);
    for (size_t l = 0; l < stack->stages.size(); ++l) {
      Trace trace(/*probing=*/true);
      state = stack->stages[l].residual->forward(state, stack->stages[l].sublayer, trace);
      if (const auto beta = probe_of(trace, "beta"); beta.defined()) values[l].push_back(beta);
    }
    if (std::ranges::all_of(values, &std::vector<Tensor>::empty)) return {};  // none has a β
  }
  std::vector<BetaReport> all;
  for (const auto& parts : values)
    if (!parts.empty()) all.push_back(describe_beta(torch::cat(parts)));
  return all;
}

}  // namespace geores
