#include "lab/experiments/language/language_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lab/experiments/language/language_figures.h"
#include "lab/experiments/language/language_tables.h"

namespace geores {
namespace {

void add_table(Document& document, const Table& table) {
  if (!table.rows.empty()) document.table(table);
}

void add_figure(Document& document, const std::string& name, const std::string& svg,
                const char* caption) {
  if (!svg.empty()) document.figure(name, svg, caption);
}

void add_mixers(Document& document, const LanguageFindings& all,
                const ExperimentFindings& findings) {
  const auto& name = findings.experiment.name;
  add_table(document, mixer_table(all, findings));
  add_table(document, use_table(all, findings));
  add_figure(document, name + "_depth", mixer_figure(all, findings),
             "The product of one token's mixers up to each depth; first seed.");
  add_figure(document, name + "_entries", entry_figure(all, findings),
             "Entries of all mixers by thirds of the depth, 101 bins from −1 to 1.5; first seed.");
  const auto& column = findings.experiment.columns.front().name;
  for (const auto& arm : findings.experiment.arms) {
    const auto* one = first_measured(all, findings.cell(column, arm.name));
    if (one == nullptr || !one->contains("end") || !one->at("end").contains("mixers")) continue;
    const auto& mixers = one->at("end").at("mixers");
    document.subheading(arm.label);
    document.figure(name + "_heat_" + arm.name, heat_figure(mixers, "Mean mixers: " + arm.label),
                    "Mean over tokens of four mixers and of their product through the depth.");
    document.table(heat_table(mixers));
  }
}

void add_samples(Document& document, const LanguageFindings& all,
                 const ExperimentFindings& findings) {
  Table table{"Text that the models write: temperature 0.8, seed 1337, first seed of training.",
              {"", "text"},
              {}};
  const auto& column = findings.experiment.columns.front().name;
  for (const auto& arm : findings.experiment.arms)
    if (const auto* one = first_measured(all, findings.cell(column, arm.name)))
      if (one->contains("sample")) {
        auto text = one->at("sample").get<std::string>();
        std::ranges::replace(text, '\n', ' ');
        table.rows.push_back({arm.label, text});
      }
  add_table(document, table);
}

void add_experiment(Document& document, const LanguageFindings& all,
                    const ExperimentFindings& findings) {
  const auto& experiment = findings.experiment;
  document.heading(experiment.title).text(experiment.text);
  add_table(document, loss_table(all, findings));
  if (const auto* sweep = all.sweep(experiment.name))
    add_table(document, sweep_table(experiment, *sweep));
  if (!experiment.for_speed)
    add_figure(document, experiment.name + "_training", loss_figure(findings),
               "Loss on random validation batches by tokens and by seconds, and of training steps "
               "by tokens; mean over seeds in a band of one standard deviation.");
  if (!experiment.for_speed)
    add_figure(
        document, experiment.name + "_difference", difference_figure(findings),
        "The same by tokens, minus the loss of the first arm, seed by seed; mean and a band of one "
        "standard deviation.");
  if (experiment.name == "ablation") add_table(document, synergy_table(findings));
  if (experiment.name == "depth") add_table(document, target_table(findings));
  if (experiment.name == "beta") {
    add_table(document, beta_table(findings));
    add_figure(document, "beta", beta_figure(findings),
               "Mean of β by operator, first seed; light to dark: steps.");
    add_figure(document, "beta_heat", beta_heat_figure(findings),
               "Mean of β by operator and step, first seed.");
    add_figure(document, "beta_quantiles", beta_quantile_figure(findings),
               "1, 5, 50, 95 and 99 % of β of all tokens by step, at four operators, first seed.");
  }
  const auto asked = [&](const char* name) {
    return std::ranges::count(experiment.measures, name) > 0;
  };
  if (asked("ranks")) {
    add_table(document, rank_table(all, findings));
    add_figure(document, experiment.name + "_rank", rank_figure(all, findings),
               "Effective rank over min(T, D) after each block, first seed.");
  }
  if (asked("mixers")) add_mixers(document, all, findings);
  if (asked("mixers") || asked("ranks"))
    add_figure(document, experiment.name + "_over_training", over_training_figure(findings),
               "Of four validation windows at about ten evaluations, first seed.");
  if (asked("gradients"))
    add_figure(document, experiment.name + "_gradients", gradient_figure(findings),
               "Norms of gradients before clipping; mean over seeds in a band of one standard "
               "deviation.");
  if (asked("other_texts")) add_table(document, other_text_table(all, findings));
  if (asked("sample")) add_samples(document, all, findings);
}

}  // namespace

Document make_language_report(const LanguageFindings& all) {
  Document document(all.paper.title);
  if (all.scale == "quick" && all.paper.name != "nanogpt")
    document.warning(
        "Scale quick: tiny models, few steps, one seed. The numbers mean nothing; they only show "
        "that "
        "everything runs.");
  document.text(all.paper.text)
      .text(fmt::format("Scale {}, device {}, {}; {:.0f} minutes of training in all.", all.scale,
                        all.hardware.device, all.hardware.precision, all.train_seconds / 60));
  if (!all.made_with.empty())
    document.text(fmt::format("Trained on {}.", fmt::join(all.made_with, "; ")));
  if (const auto verdicts = verdict_table(all); !verdicts.rows.empty())
    document.heading("Verdicts").table(verdicts);
  if (const auto ngrams = ngram_table(all); !ngrams.rows.empty())
    document.heading("Without a model").table(ngrams);
  for (const auto& one : all.experiments) add_experiment(document, all, one);
  return document;
}

}  // namespace geores
