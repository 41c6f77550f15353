#include "cli/text/eval_text.h"

#include <fmt/format.h>

#include "cli/text/run_tokenizer.h"
#include "geores/base/error.h"
#include "geores/data/tasks/text.h"
#include "geores/text/ngrams.h"
#include "geores/train/text_evaluation.h"

namespace geores::cli {
namespace {

struct Line {
  std::string name;
  double nats;  // an id
};

// Other text must be prepared with the run's own tokeniser: ids of another mean other text.
void require_same_tokenizer(const PreparedText& text, const EvalTextFlags& flags,
                            int64_t vocabulary) {
  require(text.vocabulary() == vocabulary, "eval",
          "{} has a vocabulary of {}, the model of {} one of {}", text.folder(), text.vocabulary(),
          flags.run, vocabulary);
  if (!text.tokenizer() || !std::filesystem::exists(flags.run + "/tokenizer.json")) return;
  const auto mine = tokenizer_of_run(flags.run)->fingerprint();
  require(text.tokenizer()->fingerprint() == mine, "eval",
          "{} is prepared with another tokeniser (sha256 {:.12}) than {} (sha256 {:.12})",
          text.folder(), text.tokenizer()->fingerprint(), flags.run, mine);
}

}  // namespace

void evaluate_text(const LoadedRun& run, const EvalTextFlags& flags) {
  const auto options = run.config.task.completed().options;
  const auto own = options.at("data").get<std::string>();
  const auto text =
      PreparedText::open(flags.data.empty() ? own : flags.data,
                         flags.data.empty() ? options.at("vocabulary").get<int64_t>() : int64_t{0});
  const auto shape = run.model->input();
  require_same_tokenizer(text, flags, shape.vocabulary);
  const auto& split = text.split(flags.split);
  const TextWindows windows{.context = shape.length,
                            .stride = flags.stride == 0 ? shape.length : flags.stride,
                            .before_first = text.before_first()};
  const auto loss = text_loss(*run.model, ids_tensor(split), windows);
  std::vector<Line> lines = {{run.config.model.label(), loss.mean()}};
  if (text.splits().contains("train")) {
    const auto tables = ngram_losses(text.split("train").ids(), split.ids(), text.vocabulary(),
                                     static_cast<int>(flags.ngrams));
    for (size_t n = 0; n < tables.size(); ++n)
      lines.push_back({n == 0   ? "no model: uniform"
                       : n == 1 ? "no model: unigram"
                                : fmt::format("no model: {}-gram", n),
                       tables[n]});
  }
  const auto with = [&](const Line& line) {
    return TextLoss{.nats = line.nats * static_cast<double>(loss.ids), .ids = loss.ids};
  };
  if (flags.json) {
    nlohmann::json object = {{"run", flags.run},
                             {"step", run.step},
                             {"data", text.folder()},
                             {"split", flags.split},
                             {"stride", windows.stride},
                             {"ids", loss.ids},
                             {"rows", nlohmann::json::array()}};
    for (const auto& line : lines) {
      nlohmann::json row = {
          {"name", line.name}, {"nats", line.nats}, {"perplexity", with(line).perplexity()}};
      if (split.facts) {
        row["bits_per_byte"] = with(line).bits_per_byte(split.facts->bytes);
        row["word_perplexity"] = with(line).word_perplexity(split.facts->words);
      }
      object["rows"].push_back(row);
    }
    fmt::print("{}\n", object.dump(2));
    return;
  }
  fmt::print("{} on {} ({}), weights of step {}: {} ids, windows of {} with stride {}\n",
             run.config.model.label(), text.folder(), flags.split, run.step, loss.ids,
             windows.context, windows.stride);
  if (split.facts && text.tokenizer())
    fmt::print("{:<22} {:>10} {:>12} {:>14} {:>16}\n", "", "nats an id", "perplexity",
               "bits per byte", "word perplexity");
  else
    fmt::print("{:<22} {:>10} {:>12}   (no data.json: bits per byte are not known)\n", "",
               "nats an id", "perplexity");
  for (const auto& line : lines) {
    fmt::print("{:<22} {:>10.4f} {:>12.2f}", line.name, line.nats, with(line).perplexity());
    if (split.facts)
      fmt::print(" {:>14.4f} {:>16.2f}", with(line).bits_per_byte(split.facts->bytes),
                 with(line).word_perplexity(split.facts->words));
    fmt::print("{}\n",
               &line != &lines.front() && line.nats < loss.mean() ? "  better than the model" : "");
  }
}

}  // namespace geores::cli
