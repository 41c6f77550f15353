#include "lab/experiments/language/language_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "lab/diagnostics/diagnostics_log.h"
#include "lab/diagnostics/mixer_measures.h"
#include "lab/experiments/language/language_figures.h"
#include "lab/experiments/language/learning.h"
#include "lab/experiments/language/sweep.h"
#include "lab/experiments/language/verdicts.h"

namespace geores {
namespace {

using nlohmann::json;

constexpr double kShcTokens = 10000.0 * 128 * 1024;  // of sHC's smaller runs

std::string fixed(double value, int digits = 3) {
  if (!std::isfinite(value)) return "";
  // A value that rounds to zero has no sign.
  return fmt::format("{:.{}f}", std::abs(value) < 0.5 * std::pow(10, -digits) ? 0 : value, digits);
}

std::string shown(const Sample& sample, int digits = 3) {
  if (!sample.known()) return "";
  if (std::isnan(sample.deviation)) return fixed(sample.mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", sample.mean, digits, sample.deviation, digits);
}

std::string in_millions(const Sample& sample) {
  return shown({sample.mean / 1e6, sample.deviation / 1e6, sample.count}, 3) + "M";
}

std::string shown(const Welch& test) {
  return test.known() ? fmt::format("t = {:.2f}, p = {:.2g}", test.t, test.p) : "";
}

// Derived from a cell's exact losses and the size of its validation text.
struct TextNumbers {
  std::vector<double> bits_per_byte, word_perplexity;
};
TextNumbers text_numbers(const LanguageFindings& all, const CellFindings& cell) {
  TextNumbers numbers;
  const auto* one = first_measured(all, cell);
  if (one == nullptr || !one->contains("text")) return numbers;
  const auto& text = one->at("text");
  const auto ids = text.at("ids").get<double>();
  for (const auto nats : cell.exact) {
    numbers.bits_per_byte.push_back(nats * ids /
                                    (std::numbers::ln2 * text.at("bytes").get<double>()));
    numbers.word_perplexity.push_back(std::exp(nats * ids / text.at("words").get<double>()));
  }
  return numbers;
}

std::vector<const json*> measured_with(const LanguageFindings& all, const CellFindings& cell,
                                       const json::json_pointer& part) {
  std::vector<const json*> found;
  for (const auto& run : cell.runs)
    if (const auto* one = all.measured_on(run); one != nullptr && one->contains(part))
      found.push_back(one);
  return found;
}

// The share of entries below 0 in the mixers of each run. Thirds of the depth may differ in size.
std::vector<double> negative_entries(const LanguageFindings& all, const CellFindings& cell) {
  std::vector<double> shares;
  for (const auto* one : measured_with(all, cell, "/end/mixers/thirds"_json_pointer)) {
    double negative = 0, total = 0;
    for (const auto& third : one->at("end").at("mixers").at("thirds")) {
      double entries = 0;
      for (const auto& count : third.at("entries")) entries += count.get<double>();
      negative += entries * third.at("negative").get<double>();
      total += entries;
    }
    shares.push_back(negative / total);
  }
  return shares;
}

// Mean over operators [from, to) of a number in their reports.
double mean_over(const json& reports, size_t from, size_t to, const json::json_pointer& at) {
  double sum = 0;
  for (auto l = from; l < to; ++l) sum += reports.at(l).at(at).get<double>();
  return sum / static_cast<double>(to - from);
}

}  // namespace

const json* first_measured(const LanguageFindings& all, const CellFindings& cell) {
  for (const auto& run : cell.runs)
    if (const auto* one = all.measured_on(run)) return one;
  return nullptr;
}

Table verdict_table(const LanguageFindings& all) {
  Table table{
      "Losses are cross entropies over the ids that each table below names. Two-sided tests over "
      "seeds; "
      "open: p >= 0.05, or too few seeds.",
      {"claim", "numbers", "test", "control", "verdict"},
      {}};
  for (const auto& one : language_verdicts(all))
    table.rows.push_back({one.claim, one.numbers, one.test, one.control, one.verdict});
  return table;
}

Table sweep_table(const Experiment& experiment, const ExperimentFindings& sweep) {
  Table table{fmt::format("Loss over {}, one seed, by learning rate.", scored_part(experiment)),
              {"", "data"},
              {}};
  for (const auto rate : experiment.rates) table.heads.push_back(fmt::format("{:g}", rate));
  for (const auto& column : experiment.columns)
    for (const auto& arm : experiment.arms) {
      std::vector<std::string> row = {arm.label, column.label};
      bool any = false;
      for (const auto rate : experiment.rates) {
        const auto& cell = sweep.cell(column.name, swept_name(arm.name, rate));
        any = any || !cell.runs.empty();
        row.push_back(!cell.exact.empty() ? fixed(cell.exact.front(), 4)
                      : cell.diverged > 0 ? "diverged"
                                          : "");
      }
      if (any) table.rows.push_back(row);
    }
  return table;
}

Table loss_table(const LanguageFindings& all, const ExperimentFindings& findings) {
  const std::string of_speed =
      "Tokens/s: median over steps, with the runs side by side that there were. ";
  Table table{
      "Train: mean of the last 200 logged steps. Validation: cross entropy in nats over " +
          scored_part(findings.experiment) +
          ", with the best weights; on random batches: the best evaluation. ± is the standard "
          "deviation over seeds. Test: against the first row of the same data. " +
          of_speed +
          "Gradient norms: before clipping, 50 %, 99 % and maximum over all steps of all seeds. "
          "Clipped: share of these steps.",
      {"",
       "data",
       "seeds",
       "parameters",
       "learning rate",
       "train",
       "validation",
       "random batches",
       "published",
       "bits per byte",
       "word perplexity",
       "difference",
       "test",
       "accuracy",
       "tokens/s",
       "hours to sHC's 10,000 steps",
       "gradient norms",
       "clipped",
       "diverged",
       "seconds"},
      {}};
  if (findings.experiment.for_speed)
    table.explanation = of_speed + "Losses mean nothing after so few steps.";
  const auto judged = [&](std::string number) {
    return findings.experiment.for_speed ? std::string() : number;
  };
  for (const auto& column : findings.experiment.columns) {
    Sample first;
    for (const auto& arm : findings.experiment.arms) {
      const auto& cell = findings.cell(column.name, arm.name);
      const auto loss = sample_of(cell.exact);
      const bool is_first = &arm == &findings.experiment.arms.front();
      if (is_first) first = loss;
      if (cell.runs.empty()) continue;
      const auto text = text_numbers(all, cell);
      const auto speed = tokens_per_second(cell);
      const auto norms =
          norms_of_gradients(cell, size_of_runs(findings.experiment, column.name, arm.name).clip);
      const auto published = arm.published.find(column.name);
      const bool compared =
          !is_first && loss.known() && first.known() && !findings.experiment.for_speed;
      table.rows.push_back(
          {arm.label,
           column.label,
           fmt::format("{}", cell.runs.size()),
           fmt::format("{}", cell.parameters),
           fmt::format("{:g}", rate_of(arm, column.name)),
           judged(shown(train_loss(cell))),
           judged(shown(loss, 4)),
           judged(shown(sample_of(cell.best), 4)),
           published == arm.published.end() ? "" : fixed(published->second.mean, 4),
           judged(shown(sample_of(text.bits_per_byte), 4)),
           judged(shown(sample_of(text.word_perplexity), 2)),
           compared ? fmt::format("{:+.4f}", loss.mean - first.mean) : "",
           compared ? shown(welch_test(loss, first)) : "",
           shown(sample_of(over_runs(all, cell, "/accuracy"))),
           fixed(speed, 0),
           all.paper.name == "shc" ? fixed(kShcTokens / speed / 3600, 2) : "",
           norms ? judged(fmt::format("{:.2f} / {:.2f} / {:.2f}", norms->median, norms->high,
                                      norms->most))
                 : "",
           norms ? judged(fmt::format("{:.1f} %", 100 * norms->clipped)) : "",
           cell.diverged > 0 ? fmt::format("{} of {}", cell.diverged, cell.runs.size()) : "",
           fixed(cell.seconds, 0)});
    }
  }
  drop_empty_columns(table);
  return table;
}

Table ngram_table(const LanguageFindings& all) {
  Table table{
      "No model: tables of counts of the train ids, interpolated with an absolute discount of "
      "0.75; nats an id over the ids on which the models are scored.",
      {"text"},
      {}};
  size_t most = 0;
  for (const auto& [name, losses] : all.ngrams) most = std::max(most, losses.size());
  for (size_t n = 0; n < most; ++n)
    table.heads.push_back(n == 0 ? "uniform" : n == 1 ? "unigram" : fmt::format("{}-gram", n));
  for (const auto& [name, losses] : all.ngrams) {
    auto& row = table.rows.emplace_back();
    row.push_back(name);
    for (size_t n = 0; n < most; ++n) row.push_back(n < losses.size() ? fixed(losses[n]) : "");
  }
  return table;
}

Table other_text_table(const LanguageFindings& all, const ExperimentFindings& findings) {
  Table table{
      "Texts that the models were not trained on: bits per byte; how much less than in the first "
      "row, with Welch's p; in brackets word perplexity, which <unk> makes easier in WikiText-2.",
      {""},
      {}};
  std::vector<std::string> names;
  const auto& column = findings.experiment.columns.front().name;
  for (const auto& arm : findings.experiment.arms)
    if (const auto* one = first_measured(all, findings.cell(column, arm.name)))
      if (one->contains("other_texts"))
        for (const auto& [name, numbers] : one->at("other_texts").items())
          if (std::ranges::count(names, name) == 0) names.push_back(name);
  for (const auto& name : names) table.heads.push_back(name);
  std::map<std::string, Sample> firsts;  // bits of the first row
  for (const auto& arm : findings.experiment.arms) {
    const auto& cell = findings.cell(column, arm.name);
    std::vector<std::string> row = {arm.label};
    for (const auto& name : names) {
      const auto at = "/other_texts/" + name;
      const auto bits = sample_of(over_runs(all, cell, at + "/bits_per_byte")),
                 words = sample_of(over_runs(all, cell, at + "/word_perplexity"));
      if (!bits.known()) {
        row.push_back("");
        continue;
      }
      const auto [first, is_first] = firsts.try_emplace(name, bits);
      auto change = fmt::format(", {:+.1f} %", 100 * (bits.mean / first->second.mean - 1));
      if (const auto test = welch_test(bits, first->second); test.known())
        change += fmt::format(", p = {:.2g}", test.p);
      row.push_back(
          fmt::format("{}{} ({})", shown(bits, 4), is_first ? "" : change, fixed(words.mean, 1)));
    }
    if (row.size() > 1 && !row[1].empty()) table.rows.push_back(row);
  }
  return table;
}

Table rank_table(const LanguageFindings& all, const ExperimentFindings& findings) {
  Table table{
      "Effective rank over min(T, D) of the states of some validation windows, mean of the seeds "
      "that were measured: before the first block, in the middle and after the last one; with "
      "the token mean removed; of the last norm's input. Ratio: after the last block over "
      "before the first. Slope: of ln rank by block.",
      {"", "data", "learning rate", "validation", "untrained, end", "begin", "middle", "end",
       "centred, end", "collapsed, end", "ratio", "slope", "above 0.5", "seeds, windows"},
      {}};
  for (const auto& column : findings.experiment.columns)
    for (const auto& arm : findings.experiment.arms) {
      const auto& cell = findings.cell(column.name, arm.name);
      const auto measured = measured_with(all, cell, "/end/relative_rank"_json_pointer);
      if (measured.empty()) continue;
      const auto mean_of = [&](int digits, const auto& number) {
        std::vector<double> numbers;
        for (const auto* one : measured) numbers.push_back(number(*one));
        return shown(sample_of(numbers), digits);
      };
      const auto rank_at = [&](const char* when, const char* key, double depth) {
        return mean_of(3, [&](const json& one) {
          const auto& ranks = one.at(when).at("relative_rank").at(key);
          const auto block = static_cast<size_t>(depth * static_cast<double>(ranks.size()));
          return ranks.at(std::min(block, ranks.size() - 1)).get<double>();
        });
      };
      const auto line = [](const json& one) { return one.at("end").at("relative_rank"); };
      const auto above = std::ranges::count_if(measured, [&](const json* one) {
        return line(*one).at("plain").back().get<double>() > 0.5;
      });
      table.rows.push_back(
          {arm.label, column.label, fmt::format("{:g}", rate_of(arm, column.name)),
           shown(sample_of(cell.exact), 4), rank_at("start", "plain", 1),
           rank_at("end", "plain", 0), rank_at("end", "plain", 0.5), rank_at("end", "plain", 1),
           rank_at("end", "centred", 1), rank_at("end", "collapsed", 1),
           mean_of(3, [&](const json& one) { return line(one).at("ratio").get<double>(); }),
           mean_of(4, [&](const json& one) { return line(one).at("slope").get<double>(); }),
           fmt::format("{} of {}", above, measured.size()),
           // Measurements without this number used four windows.
           fmt::format("{}, {}", measured.size(), line(*measured.front()).value("windows", 4))});
    }
  return table;
}

Table synergy_table(const ExperimentFindings& ablation) {
  Table table{"S > 0: both parts together gain more than apart. Test: of S against 0 over seeds.",
              {"base", "S", "test", "L(base)", "L(+mHC)", "L(+DDL)", "L(MGT)"},
              {}};
  const auto& column = ablation.experiment.columns.front().name;
  const auto loss = [&](const char* arm) {
    return shown(sample_of(ablation.cell(column, arm).exact), 4);
  };
  for (const auto* base : {"pre", "post"}) {
    const auto s = sample_of(synergy(ablation, column, base));
    if (!s.known()) continue;
    const auto test = test_of_mean(s, 0);
    table.rows.push_back(
        {ablation.experiment.arm(base).label, shown(s, 4),
         std::isnan(test.p) ? "" : fmt::format("t = {:.2f}, p = {:.2g}", test.t, test.p),
         loss(base), loss("mhc"), loss("ddl"), loss("mgt")});
  }
  return table;
}

Table beta_table(const ExperimentFindings& findings) {
  Table table{
      "β of the operators of a model with the first seed: mean and share below 0 of the first, the "
      "middle and the last tenth. First below 0: the operator from which on the mean stays "
      "negative. α: with 0 nothing is erased.",
      {"", "data", "step", "first tenth", "P(β < 0)", "middle", "P(β < 0)", "last", "P(β < 0)",
       "variance, first", "last", "first below 0", "largest change", "α, first", "α, last"},
      {}};
  for (const auto& column : findings.experiment.columns)
    for (const auto& arm : findings.experiment.arms) {
      const auto& runs = findings.cell(column.name, arm.name).runs;
      if (runs.empty()) continue;
      const auto lines = read_diagnostics(runs.front());
      for (const auto i : quarters_of_training(lines)) {
        const auto& betas = lines[i].at("beta");
        const auto count = betas.size(), part = std::max<size_t>(1, count / 10);
        std::vector<BetaReport> reports;
        for (const auto& one : betas) reports.push_back({.mean = one.at("mean").get<double>()});
        const auto depth = describe_beta_depth(reports);
        auto& row = table.rows.emplace_back();
        row = {arm.label, column.label, lines[i].at("step").dump()};
        for (const auto from : {size_t{0}, (count - part) / 2, count - part}) {
          row.push_back(fixed(mean_over(betas, from, from + part, "/mean"_json_pointer)));
          row.push_back(fixed(mean_over(betas, from, from + part, "/negative"_json_pointer)));
        }
        row.push_back(fixed(mean_over(betas, 0, part, "/variance"_json_pointer), 4));
        row.push_back(fixed(mean_over(betas, count - part, count, "/variance"_json_pointer), 4));
        row.push_back(depth.first_below_zero < 0 ? "none" : std::to_string(depth.first_below_zero));
        row.push_back(fixed(depth.sharpness));
        const auto& alphas = lines[i].at("alpha");
        row.push_back(fixed(mean_over(alphas, 0, part, ""_json_pointer)));
        row.push_back(fixed(mean_over(alphas, count - part, count, ""_json_pointer)));
      }
    }
  return table;
}

Table target_table(const ExperimentFindings& depth) {
  Table table{"", {"", "data", "tokens to target", "seeds"}, {}};
  // The target: the loss of pre-norm at the second depth after half of its training.
  const auto& columns = depth.experiment.columns;
  if (columns.size() < 2) return table;
  const auto& second = columns[1];
  const auto half_way =
      static_cast<double>(size_of_runs(depth.experiment, second.name, "pre").steps) / 2;
  std::vector<double> steps, losses;
  for (const auto& run : depth.cell(second.name, "pre").runs)
    if (const auto curve = validation_losses(run); !curve.empty()) {
      const auto half = nearest_to(curve, half_way);
      steps.push_back(half.step);
      losses.push_back(half.loss);
    }
  if (losses.empty()) return table;
  const auto target = sample_of(losses).mean;
  table.explanation = fmt::format(
      "Tokens to a validation loss of {:.3f}, which pre-norm with {} has after {:.0f} steps, the "
      "evaluation nearest to half of its training (mean over seeds); linear between evaluations, "
      "on random batches, best learning rate. Mean over the seeds that reach it, and how many do.",
      target, second.label, sample_of(steps).mean);
  for (const auto& column : columns)
    for (const auto& arm : depth.experiment.arms) {
      const auto& runs = depth.cell(column.name, arm.name).runs;
      if (runs.empty()) continue;
      const auto size = size_of_runs(depth.experiment, column.name, arm.name);
      std::vector<double> tokens;
      for (const auto& run : runs)
        if (const auto step = first_step_with(validation_losses(run), target))
          tokens.push_back(*step * static_cast<double>(size.tokens_a_step));
      table.rows.push_back({arm.label, column.label,
                            tokens.empty() ? "not reached" : in_millions(sample_of(tokens)),
                            fmt::format("{} of {}", tokens.size(), runs.size())});
    }
  return table;
}

Table mixer_table(const LanguageFindings& all, const ExperimentFindings& findings) {
  Table table{
      "Row maximum: median over all mixers and tokens, before training and after. Diagonal: share "
      "of mixers whose rows are all largest on the diagonal. Composite: product of one token's "
      "mixers through the whole depth. σ₂: the largest gain of directions other than the mean.",
      {"", "row maximum, start", "end", "10 %", "diagonal, start", "end", "negative entries",
       "column sums, most", "composite column sums, most", "composite σ₁", "σ₂", "σ_min"},
      {}};
  const auto& column = findings.experiment.columns.front().name;
  for (const auto& arm : findings.experiment.arms) {
    const auto& cell = findings.cell(column, arm.name);
    const auto* one = first_measured(all, cell);
    if (one == nullptr || !one->contains("end") || !one->at("end").contains("mixers")) continue;
    const auto& end = one->at("end").at("mixers");
    const auto& last = end.at("layers").back();
    double most = 0;
    for (const auto& layer : end.at("layers"))
      most = std::max(most, layer.at("column_sums").back().get<double>());
    const auto number = [&](const char* pointer) {
      return shown(sample_of(over_runs(all, cell, pointer)));
    };
    table.rows.push_back(
        {arm.label, number("/start/mixers/row_maxima/1"), number("/end/mixers/row_maxima/1"),
         number("/end/mixers/row_maxima/0"), number("/start/mixers/diagonal_share"),
         number("/end/mixers/diagonal_share"), shown(sample_of(negative_entries(all, cell))),
         fixed(most), fixed(last.at("composite_column_sums").back().get<double>()),
         fixed(last.at("composite_norm").at("mean").get<double>()),
         fixed(last.at("composite_second").at("mean").get<double>()),
         fixed(last.at("composite_least").at("mean").get<double>())});
  }
  return table;
}

Table use_table(const LanguageFindings& all, const ExperimentFindings& findings) {
  Table table{
      "Validation loss of the trained model on 64 sequences with every mixer replaced. No "
      "difference: the model does not use its mixers.",
      {"", "as it is", "identity", "token mean", "all equal (J)"},
      {}};
  const auto& column = findings.experiment.columns.front().name;
  for (const auto& arm : findings.experiment.arms) {
    const auto& cell = findings.cell(column, arm.name);
    const auto number = [&](const char* pointer) {
      return shown(sample_of(over_runs(all, cell, pointer)), 4);
    };
    if (number("/use/as_it_is").empty()) continue;
    table.rows.push_back({arm.label, number("/use/as_it_is"), number("/use/identity"),
                          number("/use/mean"), number("/use/uniform")});
  }
  return table;
}

Table heat_table(const json& mixers) {
  const auto n = mixers.at("streams").get<size_t>();
  Table table{
      "Mean mixers of the first seed: entries row by row, with the sums of rows and columns.",
      {"mixer", "row"},
      {}};
  for (size_t j = 0; j < n; ++j) table.heads.push_back(fmt::format("from {}", j));
  table.heads.push_back("sum");
  const auto add = [&](const std::string& name, const json& values) {
    std::vector<double> columns(n, 0);
    for (size_t i = 0; i < n; ++i) {
      auto& row = table.rows.emplace_back();
      row = {name, fmt::format("to {}", i)};
      double sum = 0;
      for (size_t j = 0; j < n; ++j) {
        const auto value = values.at(i * n + j).get<double>();
        row.push_back(fixed(value));
        sum += value;
        columns[j] += value;
      }
      row.push_back(fixed(sum));
    }
    auto& row = table.rows.emplace_back();
    row = {name, "sum"};
    for (const auto sum : columns) row.push_back(fixed(sum));
    row.push_back("");
  };
  const auto& layers = mixers.at("layers");
  for (const auto l : quarters(layers.size()))
    add(layers.at(l).at("name").get<std::string>(), layers.at(l).at("mean"));
  add("composite", layers.back().at("composite_mean"));
  return table;
}

}  // namespace geores
