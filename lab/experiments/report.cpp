#include "lab/experiments/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "geores/base/file.h"
#include "lab/experiments/figures.h"
#include "lab/experiments/own/contrasts.h"

namespace geores {
namespace {

std::string format_value(double value) {
  if (!std::isfinite(value)) return "";
  return value == 0 ? "0" : fmt::format("{:.2e}", value);
}

std::string format_ratio(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.2f} ×", ratio) : "";
}

std::string format_test(const Welch& test) {
  return test.known() ? fmt::format("t = {:.2f}, p = {:.2g}", test.t, test.p) : "";
}

Sample published(const Arm& arm, const std::string& column) {
  const auto found = arm.published.find(column);
  return found == arm.published.end() ? Sample() : found->second;
}

std::string diverged_note(const CellFindings& cell) {
  return cell.diverged > 0 ? fmt::format(" ({} diverged)", cell.diverged) : "";
}

struct BestModel {
  std::string label;
  double value = std::numeric_limits<double>::infinity();
};

template <class Value>
BestModel best_model(const Experiment& experiment, Value&& value) {
  BestModel best;
  for (const auto& arm : experiment.arms)
    if (const double v = value(arm); v < best.value) best = {arm.label, v};
  return best;
}

// One row per data set: the published winner, ours, and the best trivial predictor.
Table against_no_model(const ExperimentFindings& main, int& lost) {
  Table table{
      "The lowest validation MSE of all models, compared with the best of five trivial "
      "predictors: zero, copy the input, running mean, minus the input, one linear map fitted on "
      "the "
      "train set.",
      {"task", "published winner", "MSE", "our winner", "MSE", "no model", "MSE", "better"},
      {}};
  for (const auto& column : main.experiment.columns) {
    const auto known = best_model(main.experiment,
                                  [&](const Arm& arm) { return published(arm, column.name).mean; });
    const auto ours = best_model(main.experiment, [&](const Arm& arm) {
      return sample_of(main.cell(column.name, arm.name).exact).mean;
    });
    const auto& trivial = best_baseline(main.baselines.at(column.name));
    const auto loses = trivial.mse < ours.value;
    lost += loses ? 1 : 0;
    table.rows.push_back({column.label, known.label, format_value(known.value), ours.label,
                          format_value(ours.value), trivial.name, format_value(trivial.mse),
                          loses ? "no model" : "the model"});
  }
  return table;
}

Table claims_table(const std::vector<Judgement>& judgements) {
  Table table{
      "Ratio: how many times smaller the better model's MSE is. Welch's t-test over seeds, "
      "two-sided; open: p ≥ 0.05, or too few seeds. Where no deviation is published, nothing can "
      "be tested.",
      {"claim", "published", "test of the published numbers", "measured", "test of ours",
       "verdict"},
      {}};
  for (const auto& one : judgements)
    table.rows.push_back({one.claim.text, format_ratio(one.published_ratio),
                          format_test(one.published), format_ratio(one.measured_ratio),
                          format_test(one.measured), one.verdict});
  return table;
}

// One data set: models and trivial predictors in one table.
Table column_table(const ExperimentFindings& findings, const Column& column) {
  Table table{"",
              {"", "published", "measured: best evaluation", "measured: whole validation set",
               "against the first row", "parameters"},
              {}};
  const auto first = sample_of(findings.cell(column.name, findings.experiment.arms[0].name).best);
  std::vector<double> bests, exacts;
  for (const auto& arm : findings.experiment.arms) {
    const auto& cell = findings.cell(column.name, arm.name);
    const auto best = sample_of(cell.best), exact = sample_of(cell.exact);
    const auto is_first = table.rows.empty();
    bests.push_back(best.mean);
    exacts.push_back(exact.mean);
    table.rows.push_back({arm.label, format_sample(published(arm, column.name)),
                          format_sample(best) + diverged_note(cell), format_sample(exact),
                          is_first ? ""
                                   : format_ratio(first.mean / best.mean) + ", " +
                                         format_test(welch_test(best, first)),
                          fmt::format("{}", cell.parameters)});
    if (auto& text = table.rows.back()[4]; text.ends_with(", ")) text.resize(text.size() - 2);
  }
  for (const auto& baseline : findings.baselines.at(column.name)) {
    table.rows.push_back(
        {"no model: " + baseline.name, "", "", format_value(baseline.mse), "", ""});
    bests.push_back(std::nan(""));
    exacts.push_back(baseline.mse);
  }
  mark_lowest(table, 2, bests);
  mark_lowest(table, 3, exacts);
  return table;
}

// Several data sets in one table: published and measured for each.
Table compact_table(const ExperimentFindings& findings) {
  const auto& experiment = findings.experiment;
  Table table{"", {""}, {}};
  const auto any_published = std::any_of(experiment.arms.begin(), experiment.arms.end(),
                                         [](const Arm& arm) { return !arm.published.empty(); });
  for (const auto& column : experiment.columns) {
    if (any_published) table.heads.push_back(column.label + ", published");
    table.heads.push_back(column.label + (any_published ? ", measured" : ""));
  }
  for (const auto& arm : experiment.arms) {
    auto& row = table.rows.emplace_back();
    row.push_back(arm.label);
    for (const auto& column : experiment.columns) {
      if (any_published) row.push_back(format_sample(published(arm, column.name)));
      const auto& cell = findings.cell(column.name, arm.name);
      row.push_back(format_sample(sample_of(cell.best)) + diverged_note(cell));
    }
  }
  const auto& first = findings.baselines.begin()->second;
  for (std::size_t i = 0; i < first.size(); ++i) {
    auto& row = table.rows.emplace_back();
    row.push_back("no model: " + first[i].name);
    for (const auto& column : experiment.columns) {
      if (any_published) row.push_back("");
      row.push_back(format_value(findings.baselines.at(column.name)[i].mse));
    }
  }
  return table;
}

Sample over_seeds(const std::vector<nlohmann::json>& results, const std::string& key) {
  std::vector<double> values;
  for (const auto& result : results)
    if (!result.at(key).is_null()) values.push_back(result.at(key).get<double>());
  return sample_of(values);
}

std::string format_plain(const Sample& sample) {
  if (!sample.known()) return "";
  if (std::isnan(sample.deviation)) return fmt::format("{:.3f}", sample.mean);
  return fmt::format("{:.3f} ± {:.3f}", sample.mean, sample.deviation);
}

Table reflection_table(const Findings& findings) {
  Table table{
      "Cosine: mean cos(prediction, −x) on unseen vectors, 1 is perfect. Gate: γ of EΔ (0 is a "
      "reflection), β of DDL (2 is a reflection), at the largest train size.",
      {"operator", "cosine, published"},
      {}};
  for (const auto& [samples, results] : findings.reflection.begin()->second)
    table.heads.push_back(fmt::format("cosine, {} samples", samples));
  for (const auto* head : {"gate, published", "gate, measured", "MSE"}) table.heads.push_back(head);
  for (const auto& probe : reflection_probes()) {
    const auto& by_samples = findings.reflection.at(probe.name);
    auto& row = table.rows.emplace_back();
    row.push_back(probe.label);
    row.push_back(
        std::isnan(probe.published_cosine) ? "" : fmt::format("{:.2f}", probe.published_cosine));
    for (const auto& [samples, results] : by_samples)
      row.push_back(format_plain(over_seeds(results, "cosine")));
    const auto& most = by_samples.rbegin()->second;
    const auto gamma = over_seeds(most, "gamma");
    row.push_back(format_plain(probe.published_gate));
    row.push_back(format_plain(gamma.known() ? gamma : over_seeds(most, "beta")));
    row.push_back(format_value(over_seeds(most, "loss").mean));
  }
  return table;
}

std::string published_deviation(const std::string& arm) {
  const auto& known = published_norm_deviations();
  const auto found = known.find(arm);
  return found == known.end() ? "" : fmt::format("{:.3f}", found->second);
}

Table norm_table(const Experiment& experiment, const NormResults& norms, int64_t length) {
  Table table{
      "Models of the stability task. Deviation |‖ŷ‖/‖x‖ − 1|. Roll-out: predictions fed back; norm "
      "of the last one and its squared distance to the start.",
      {"", "random vectors, published", "random vectors", "validation", "roll-out norm",
       "roll-out error"},
      {}};
  for (const auto& arm : experiment.arms) {
    const auto& seeds = norms.at(kRolloutColumn).at(arm.name);
    std::vector<nlohmann::json> ends;
    for (const auto& seed : seeds) ends.push_back(seed.at("rollout").back());
    table.rows.push_back(
        {arm.label, published_deviation(arm.name), format_plain(over_seeds(seeds, "random")),
         format_sample(over_seeds(seeds, "validation")), format_plain(over_seeds(ends, "norm")),
         format_sample(over_seeds(ends, "error"))});
  }
  table.rows.push_back({"no model: copy", "", "0.000", "0", "1.000", ""});
  table.rows.push_back({"no model: running_mean", "",
                        fmt::format("{:.3f}", running_mean_deviation(length)), "", "", ""});
  return table;
}

// The paper does not say on which task its models were trained.
Table norms_by_task(const Experiment& experiment, const NormResults& norms) {
  Table table{"Deviation on random unit vectors, by the task that a model was trained on.",
              {"", "published"},
              {}};
  for (const auto& column : experiment.columns) table.heads.push_back(column.label);
  for (const auto& arm : experiment.arms) {
    table.rows.push_back({arm.label, published_deviation(arm.name)});
    for (const auto& column : experiment.columns)
      table.rows.back().push_back(
          format_plain(over_seeds(norms.at(column.name).at(arm.name), "random")));
  }
  return table;
}

void add_summary(Document& document, const Findings& findings) {
  const auto* main = findings.find("main");
  const auto judgements = findings.judgements();
  if (judgements.empty()) return;
  int lost = 0;
  std::optional<Table> no_model;
  if (main != nullptr) no_model = against_no_model(*main, lost);
  const auto count = [&](const char* verdict) {
    return std::count_if(judgements.begin(), judgements.end(),
                         [&](const Judgement& one) { return one.verdict == verdict; });
  };
  document.heading("Summary of the verdicts");
  auto text =
      fmt::format("Of {} comparisons {} hold in our runs, {} are reversed, and {} are open.",
                  judgements.size(), count("holds"), count("reversed"), count("open"));
  if (no_model)
    text += fmt::format(" On {} of {} tasks a trivial predictor beats every trained model.", lost,
                        main->experiment.columns.size());
  document.text(text);
  if (no_model) document.table(*no_model);
  document.table(claims_table(judgements));
}

}  // namespace

void write_report(const std::string& folder, const Document& document,
                  const nlohmann::json& results) {
  const std::filesystem::path out = folder;
  for (const auto& figure : document.figures())
    write_file_atomically(out / "figures" / (figure.name + ".svg"), figure.svg);
  write_file_atomically(out / "results.json", results.dump(1) + "\n");
  write_file_atomically(out / "tables.md", document.to_markdown());
  write_file_atomically(out / "index.html", document.to_html());
}

std::string format_sample(const Sample& sample) {
  if (!sample.known() || !std::isfinite(sample.mean)) return "";
  if (sample.mean == 0) return "0";
  if (std::isnan(sample.deviation)) return fmt::format("{:.2e}", sample.mean);
  // The exponent that the rounded mean would be printed with.
  const auto text = fmt::format("{:.2e}", sample.mean);
  const auto exponent = std::stoi(text.substr(text.find('e') + 1));
  const auto unit = std::pow(10.0, exponent);
  return fmt::format("{:.2f} ± {:.2f} e{:+03d}", sample.mean / unit, sample.deviation / unit,
                     exponent);
}

Document make_report(const Findings& findings) {
  Document document("EΔ-MHC-Geo, reproduced");
  const auto& scale = findings.scale;
  if (!scale.comparable())
    document.warning(fmt::format(
        "Scale {}: models of 1/{} of the width and 1/{} of the depth, sequences of {}, {} steps. "
        "The "
        "numbers only show that everything runs; they cannot be compared with the published "
        "ones. For that: geores reproduce --scale paper.",
        scale.name, scale.width_divisor, scale.depth_divisor, scale.length, scale.steps));
  document.text(fmt::format(
      "Every table of the EΔ paper (arXiv:2605.06729), trained again and compared with the "
      "published numbers, with the baselines and controls that the paper lacks. Scale {}, "
      "device {}, {}; {:.0f} minutes of training in all.{}",
      scale.name, findings.hardware.device, findings.hardware.precision,
      findings.train_seconds / 60,
      scale.chosen_seeds.empty()
          ? ""
          : fmt::format(" Seeds {} instead of the paper's.", fmt::join(scale.chosen_seeds, ", "))));
  add_summary(document, findings);

  for (const auto& one : findings.experiments) {
    document.heading(one.experiment.title).text(one.experiment.text);
    if (one.experiment.name == "main") {
      document.text(
          "Best evaluation: the lowest of the evaluations on random batches, as the paper reports "
          "it. Whole validation set: the same weights, exactly. ± is the standard deviation over "
          "seeds. In bold: the lowest measured value of each column.");
      for (const auto& column : one.experiment.columns)
        document.subheading(column.label).table(column_table(one, column));
      document.figure("training", training_figure(one),
                      "Mean over seeds. Evaluations on random batches.");
      continue;
    }
    if (one.experiment.two_way())
      for (const auto& column : one.experiment.columns)
        document.subheading(column.label).table(two_way_table(one, column));
    else
      document.table(compact_table(one));
    if (one.experiment.is_own()) {
      document.table(contrast_table(contrasts_of(one)));
      document.figure(one.experiment.name, seeds_figure(one), "One dot for each seed.");
    }
    if (one.experiment.name == "gate_start")
      document.figure("gate", gate_figure(one),
                      "γ of each operator, mean over validation data; one line for each seed.");
    if (one.experiment.name == "theta")
      document.figure("theta", theta_figure(one), "Best evaluation, mean over seeds.");
  }
  if (!findings.reflection.empty()) {
    const auto idle = gate_under_regulariser(-1.5, 0.5, 2000).back();
    document.heading("Table 7: can one operator learn y = −x, and does the gate choose?")
        .text(fmt::format(
            "Published: γ → 0.051, read as the gate selecting the reflection. But the gate loss "
            "alone, with no data at all, takes a single logit from −1.5 to γ = {:.3f} in the same "
            "2000 steps, and the gate of a whole operator likewise (below, no task): the small γ "
            "is no evidence of selection. JPmHC was probed from Y₀ = I, "
            "from where its two iterations cannot come closer to −x than an MSE of 3.0; its own "
            "paper starts from Y₀ = I + αW, from where −I is reached exactly.",
            idle))
        .table(reflection_table(findings))
        .figure("reflection", reflection_figure(findings), "Mean over seeds.")
        .figure("regulariser", regulariser_figure(),
                "The published Figure 2 draws its arrows uphill; descent moves γ away from ½, and "
                "from exactly ½ not at all.");
  }
  if (!findings.norms.empty()) {
    const auto& main = findings.find("main")->experiment;
    document.heading("Table 18: norm preservation")
        .text(
            "The published form measures how close a model is to copying its input: on random unit "
            "vectors a copier scores 0, and the running mean, which is the right answer on the "
            "stability task, scores far from it.")
        .table(norm_table(main, findings.norms, findings.norm_length))
        .table(norms_by_task(main, findings.norms))
        .figure("norms", norm_figure(main, findings.norms, findings.norm_length),
                "Mean over seeds.");
  }
  if (!findings.own_norms.empty()) {
    const auto& own = findings.find(kOwnNorms)->experiment;
    document.heading("Norm preservation of operators that are always orthogonal")
        .text(
            "Models of the experiment above, ours and the papers'. An orthogonal operator "
            "preserves the norm of the state that it carries; a prediction also depends on the "
            "sublayers, so no model preserves norms exactly.")
        .table(norm_table(own, findings.own_norms, findings.norm_length))
        .table(norms_by_task(own, findings.own_norms))
        .figure("own_norms", norm_figure(own, findings.own_norms, findings.norm_length),
                "Mean over seeds.");
  }
  return document;
}

}  // namespace geores
