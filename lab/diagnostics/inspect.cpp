#include "lab/diagnostics/inspect.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"
#include "lab/diagnostics/measures.h"

namespace geores {
namespace {

using Stage = ResidualStack::Stage;

Tensor silent(const Tensor& h) { return torch::zeros_like(h); }

Tensor run(const Stage& stage, const Tensor& state) {
  Trace trace;
  return stage.residual->forward(state, stage.sublayer, trace);
}

// The probe of that name, double on the CPU; undefined if there is none.
Tensor probe(const Trace& trace, const std::string& name) {
  for (const auto& [key, value] : trace.probes())
    if (key == name) return value.to(torch::kCPU, torch::kFloat64);
  return {};
}

Spread spread(const Tensor& values) {
  return {values.mean().item<double>(), values.std(/*unbiased=*/false).item<double>(),
          values.min().item<double>(), values.max().item<double>()};
}

std::optional<Spread> spread_of_probe(const Trace& trace, const std::string& name) {
  const auto values = probe(trace, name);
  return values.defined() ? std::optional(spread(values)) : std::nullopt;
}

void require_finite(const Tensor& values, const std::string& what) {
  require(torch::isfinite(values).all().item<bool>(), "inspect",
          "{} has NaN or infinite values: the model has diverged, or its input is not finite",
          what);
}

// (B or 1, T or 1, m, m) -> (B, P, m, m) at the given positions.
Tensor at_positions(const Tensor& r, int64_t sequences, const Tensor& positions) {
  const auto m = r.size(-1);
  const auto chosen = r.size(1) == 1 ? r : r.index_select(1, positions);
  return chosen.expand({sequences, positions.size(0), m, m});
}

// Of (..., m, m) matrices that act on streams or on the width.
CompositeReport describe_composite(const Tensor& product, OperatorAxis axis) {
  const auto sigma = singular_values(product);
  const auto m = sigma.size(-1);
  CompositeReport report{.norm = spread(sigma.select(-1, 0)),
                         .sigma_min = spread(sigma.select(-1, m - 1)),
                         .second = std::nullopt,
                         .row_sums = std::nullopt,
                         .column_sums = std::nullopt};
  if (m > 1) report.second = spread(sigma.select(-1, 1));
  if (axis == OperatorAxis::streams) {
    report.row_sums = spread(product.sum(-1));
    report.column_sums = spread(product.sum(-2));
  }
  return report;
}

// On which an operator of the width acts.
int64_t width_of(const Traits& traits) {
  return traits.layout == StreamLayout::expand ? traits.state_width / traits.streams
                                               : traits.state_width;
}

// Which part of the data is measured. SVDs of D × D operators cost D³ each, and a probe of all
// tokens D² each: 2²⁸ / D³ tokens take seconds (128 at D = 128, 2 at D = 512).
struct Sample {
  Tensor x;
  Tensor positions;
};

Sample sample(const Model& model, const Traits& traits, const Tensor& x,
              const InspectOptions& options) {
  require(x.dim() >= 2 && x.size(0) >= 1 && x.size(1) >= 1, "inspect",
          "needs at least one sequence of at least one position, got {}",
          x.dim() >= 2 ? fmt::format("{} of {}", x.size(0), x.size(1)) : "no sequence axis");
  require(options.positions >= 1 && options.jacobian_length >= 1, "inspect",
          "positions and jacobian_length must be >= 1, got {} and {}", options.positions,
          options.jacobian_length);
  auto sequences = x.size(0), positions = std::min(options.positions, x.size(1));
  if (traits.axis == OperatorAxis::width) {
    const auto width = static_cast<double>(width_of(traits));
    const auto tokens = static_cast<int64_t>(std::max(1.0, std::exp2(28) / std::pow(width, 3)));
    positions = std::min(positions, tokens);
    sequences = std::min(sequences, std::max<int64_t>(1, tokens / positions));
  }
  const auto parameter = model.parameters().front();
  auto moved = x.slice(0, 0, sequences).to(parameter.device());
  if (!model.input().tokens()) moved = moved.to(parameter.scalar_type());
  return {moved, torch::linspace(0, static_cast<double>(x.size(1) - 1), positions, torch::kFloat64)
                     .round()
                     .to(torch::kInt64)};
}

// State (B, T, ...) with streams as an axis of their own; undefined if there is only one.
Tensor as_streams(const Traits& traits, const Tensor& state) {
  if (traits.streams < 2 || traits.layout == StreamLayout::whole) return {};
  return state.reshape({state.size(0), state.size(1), traits.streams, -1});
}

struct StateReport {
  double norm = 0, rank = 0;
  std::optional<double> cosine;
};

StateReport describe_state(const Traits& traits, const Tensor& state) {
  const auto tokens = state.flatten(2);  // (B, T, state width)
  StateReport report{.norm = token_rms(tokens).mean().item<double>(),
                     .rank = effective_rank(tokens).mean().item<double>(),
                     .cosine = std::nullopt};
  if (const auto streams = as_streams(traits, state); streams.defined())
    report.cosine = stream_cosine(streams).mean().item<double>();
  return report;
}

OperatorReport describe_operator(const Stage& stage, const Trace& trace, const Tensor& taken) {
  OperatorReport report;
  report.name = stage.name;
  report.gamma = spread_of_probe(trace, "gamma");
  report.beta = spread_of_probe(trace, "beta");
  report.angle = spread_of_probe(trace, "angle");
  if (!taken.defined()) return report;

  const auto sigma = singular_values(taken);
  report.sigma_max = spread(sigma.select(-1, 0));
  report.sigma_min = spread(sigma.select(-1, -1));
  report.defect = spread(orthogonality_defect(taken));
  if (stage.residual->traits().orthogonal)
    report.rotation_error = largest_orthogonality_error(taken);
  return report;
}

// Runs the data through the model, operator by operator, and fills in all but the Jacobians.
void walk(const std::vector<Stage>& stages, const Traits& traits, Tensor state,
          const Tensor& positions, Inspection& out) {
  auto before = describe_state(traits, state);
  out.input_norm = before.norm;
  out.input_rank = before.rank;
  out.input_cosine = before.cosine;
  Tensor product, product_of_means;
  for (std::size_t l = 0; l < stages.size(); ++l) {
    Trace trace(/*probing=*/true);
    const auto sequences = state.size(0);
    state = stages[l].residual->forward(state, stages[l].sublayer, trace);
    require_finite(state, "the state after " + stages[l].name);

    const auto r = probe(trace, "operator");
    const auto taken = r.defined() ? at_positions(r, sequences, positions) : Tensor();
    if (r.defined()) require_finite(r, "the operator of " + stages[l].name);
    auto report = describe_operator(stages[l], trace, taken);
    if (taken.defined()) {
      const auto mean = r.flatten(0, 1).mean(0);
      product = product.defined() ? taken.matmul(product) : taken;
      product_of_means = product_of_means.defined() ? mean.matmul(product_of_means) : mean;
      require_finite(product, "the product of operators up to " + stages[l].name);
      report.composite_norm = spread(singular_values(product).select(-1, 0));
      if (traits.axis == OperatorAxis::streams) {
        const auto flat = mean.contiguous();
        report.mixer.assign(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
      }
    }
    out.operators.push_back(std::move(report));
    if (l + 1 == stages.size() || stages[l + 1].block != stages[l].block) {
      const auto after = describe_state(traits, state);
      out.layers.push_back({before.norm, after.norm, after.rank, after.cosine});
      before = after;
    }
  }
  if (product.defined()) {
    out.composite = describe_composite(product, traits.axis);
    out.composite_of_means = describe_composite(product_of_means, traits.axis);
  }
}

JacobianSpectrum spectrum(const Tensor& matrix) {
  const auto sigma = singular_values(matrix).contiguous();
  return {{sigma.data_ptr<double>(), sigma.data_ptr<double>() + sigma.numel()}};
}

// R as a matrix on all values of a token, stream after stream.
Tensor on_the_whole_token(const Tensor& r, const Traits& traits) {
  const auto copies = torch::eye(traits.state_width / r.size(-1), r.options());
  const auto matrix = r.contiguous();  // kron refuses a transposed one
  return traits.axis == OperatorAxis::streams ? torch::kron(matrix, copies)
                                              : torch::kron(copies, matrix);
}

// state: (1, T, ...); Jacobians at its last position.
void differentiate(const std::vector<Stage>& stages, const Traits& traits, Tensor state,
                   Inspection& out) {
  const auto position = state.size(1) - 1;
  out.jacobian_position = position;
  const auto through = [&](Tensor h, bool sublayers) {
    for (auto stage : stages) {
      if (!sublayers) stage.sublayer = silent;
      h = run(stage, h);
    }
    return h;
  };
  const auto path = jacobian([&](const Tensor& h) { return through(h, false); }, state, position);
  const auto whole = jacobian([&](const Tensor& h) { return through(h, true); }, state, position);
  require_finite(path, "the Jacobian of the residual path");
  require_finite(whole, "the Jacobian of the whole stack");
  out.residual_path = spectrum(path);
  out.whole_stack = spectrum(whole);

  for (std::size_t l = 0; l < stages.size(); ++l) {
    Trace trace(/*probing=*/true);
    const auto next = stages[l].residual->forward(state, stages[l].sublayer, trace);
    if (const auto r = probe(trace, "operator"); r.defined()) {
      const auto here = r[0][r.size(1) == 1 ? 0 : position];
      const auto branch =
          jacobian([&](const Tensor& h) { return run(stages[l], h); }, state, position) -
          on_the_whole_token(here, traits);
      out.operators[l].branch_variance =
          branch.square().sum().item<double>() / static_cast<double>(traits.state_width);
    }
    state = next;
  }
}

// "operators 0, 1 and 5" with the reason, once for all operators it holds for.
template <class Holds>
std::string which(const std::vector<OperatorReport>& operators, Holds&& holds) {
  std::vector<std::string> numbers;
  for (std::size_t l = 0; l < operators.size(); ++l)
    if (holds(operators[l])) numbers.push_back(std::to_string(l));
  if (numbers.empty()) return "";
  if (numbers.size() == operators.size() && numbers.size() > 1) return "all operators";
  return fmt::format("operator{} {}", numbers.size() > 1 ? "s" : "", fmt::join(numbers, ", "));
}

constexpr double kNearlySingular = 0.1, kDrift = 1e-4, kAmplified = 10;
// Set by one small model each after 200 to 400 steps: mhc's first and last mixer had 5e-4 and 6e-5 of
// the others' gradient, those of hc, which train, 1.4 and 0.09; the first H_pre had 0.007 to 0.04.
constexpr double kInert = 1e-2, kInertPre = 0.1;

void warn(Inspection& out) {
  const auto& all = out.operators;
  const auto nearly_singular = [](const OperatorReport& o) {
    return o.sigma_min && o.sigma_min->least < kNearlySingular;
  };
  const auto neutral = [&](const OperatorReport& o) { return o.gamma && nearly_singular(o); };
  if (const auto names = which(all, neutral); !names.empty()) {
    double least = 1;
    for (const auto& o : all)
      if (neutral(o)) least = std::min(least, o.sigma_min->least);
    out.warnings.push_back(fmt::format(
        "{}: the gate is close to γ = ½, where G = γQ + (1 − γ)H is singular: σ_min(G) = |2γ − 1| "
        "falls to {:.2g}, so a direction of the state is lost, and its gradient with it. A gate "
        "bias away from 0 avoids it.",
        names, least));
  }
  const auto projector = [&](const OperatorReport& o) { return !o.gamma && nearly_singular(o); };
  if (const auto names = which(all, projector); !names.empty())
    out.warnings.push_back(fmt::format(
        "{}: σ_min(R) falls below {}: R is close to a projector, a direction of the state is lost. "
        "Delta rules do that at β = 1, Grassmann mixers by design.",
        names, kNearlySingular));
  const auto drifted = [](const OperatorReport& o) {
    return o.rotation_error && *o.rotation_error > kDrift;
  };
  if (const auto names = which(all, drifted); !names.empty())
    out.warnings.push_back(fmt::format(
        "{}: max |QᵀQ − I| exceeds {}: a rotation that should be exact is not.", names, kDrift));
  if (out.inert && (out.inert->first < kInert || out.inert->last < kInert)) {
    const auto both = out.inert->first < kInert && out.inert->last < kInert;
    out.warnings.push_back(fmt::format(
        "the mixer{} of the {} connection{} hardly any gradient ({:.1g} of the others'): streams "
        "that "
        "enter equal stay equal under rows that sum to 1, and their sum at the end does not see "
        "columns that sum to 1.",
        both ? "s" : "",
        both ? "first and the last" : (out.inert->first < kInert ? "first" : "last"),
        both ? " get" : " gets",
        both ? std::max(out.inert->first, out.inert->last)
             : std::min(out.inert->first, out.inert->last)));
  }
  if (out.inert && out.inert->first_pre.value_or(1) < kInertPre)
    out.warnings.push_back(fmt::format(
        "H_pre of the first connection gets hardly any gradient ({:.1g} of the others'): it scales "
        "streams that enter equal, and the norm after it removes the scale.",
        *out.inert->first_pre));
  if (out.composite && out.composite->norm.most > kAmplified)
    out.warnings.push_back(
        fmt::format("the product of all residual operators amplifies a state up to {:.3g} times: "
                    "nothing in this connection bounds it over depth.",
                    out.composite->norm.most));
}

}  // namespace

Inspection inspect(Model& model, const Tensor& x, const InspectOptions& options) {
  const torch::NoGradGuard no_gradient;
  const auto stack = model.residual_stack();
  require(stack.has_value() && !stack->stages.empty(), "inspect",
          "this kind of model has no residual connections that can be taken apart one by one");
  const auto& stages = stack->stages;
  const auto& traits = stack->traits();
  const auto [data, positions] = sample(model, traits, x, options);

  Inspection out;
  out.connection = stack->connection;
  out.layout = to_string(traits.layout);
  out.streams = traits.layout == StreamLayout::whole ? 1 : traits.streams;
  out.state_width = traits.state_width;
  out.sequences = data.size(0);
  out.length = data.size(1);
  out.positions = positions.size(0);

  const auto state = stack->initial_state(data);
  require_finite(state, "the input of the first block");
  walk(stages, traits, state, positions, out);
  out.blocks = static_cast<int64_t>(out.layers.size());
  const auto first = data.slice(0, 0, 1).slice(1, 0, options.jacobian_length);
  differentiate(stages, traits, stack->initial_state(first), out);
  out.mixers =
      describe_mixers(model, data, {.sequences = data.size(0), .positions = options.positions});
  out.inert = measure_inert(model, data);
  out.ranks = describe_ranks(model, data);
  out.betas = describe_betas(model, data);
  warn(out);
  return out;
}

}  // namespace geores
