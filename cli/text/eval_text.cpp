#include "cli/text/eval_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "cli/text/run_tokenizer.h"
#include "geores/base/error.h"
#include "geores/data/tasks/text.h"
#include "geores/ops/run/device_named.h"
#include "geores/text/ngrams.h"
#include "geores/train/text_evaluation.h"

namespace geores::cli {
namespace {

struct Line {
  std::string name;
  double nats;  // an id
};

// Other text must be prepared with the run's own tokeniser: ids of another mean other text. Ids alone
// are taken at their word.
void require_same_tokenizer(const PreparedText& text, const EvalTextFlags& flags,
                            int64_t vocabulary) {
  require(text.vocabulary() == vocabulary, "eval",
          "{} has a vocabulary of {}, the model of {} one of {}", text.folder(), text.vocabulary(),
          flags.run, vocabulary);
  if (!text.tokenizer()) return;
  require(std::filesystem::exists(flags.run + "/tokenizer.json"), "eval",
          "{} is prepared with the tokeniser {}; the tokeniser of {} is unknown", text.folder(),
          text.tokenizer()->name(), flags.run);
  const auto mine = tokenizer_of_run(flags.run)->fingerprint();
  require(text.tokenizer()->fingerprint() == mine, "eval",
          "{} is prepared with another tokeniser (sha256 {:.12}) than {} (sha256 {:.12})",
          text.folder(), text.tokenizer()->fingerprint(), flags.run, mine);
}

PreparedText open_text(const std::string& folder, int64_t vocabulary) {
  const bool described = std::filesystem::exists(folder + "/data.json");
  return PreparedText::open(folder, described ? 0 : vocabulary);
}

// The id before a text depends on the tokeniser; the run may know it where bare ids do not.
Id before_first(const PreparedText& text, const std::string& run) {
  const bool known = std::filesystem::exists(run + "/tokenizer.json");
  return text.tokenizer() || !known ? text.before_first() : tokenizer_of_run(run)->before_first();
}

// The run's own folder must hold the ids that it was trained on. Runs of old do not know them.
void require_ids_of_run(const PreparedText& text, const std::string& run) {
  const auto origin = origin_of_run(run);
  for (const auto& [name, split] : text.splits()) {
    const auto before = origin.value(name + "_ids_sha256", split.sha256);
    require(split.sha256 == before, split.file->path().string(),
            "has changed since {} was trained on it (sha256 {:.12}, now {:.12})", run, before,
            split.sha256);
  }
}

// How often the text has the word <unk>, which is easier to predict than the words that it replaces.
int64_t unknown_words(const PreparedText& text, const PreparedSplit& split) {
  if (!text.tokenizer()) return 0;
  int64_t count = 0;
  std::string word;  // as far as it has come: the whole text may be larger than memory
  for (const auto id : split.ids())
    for (const auto character : text.tokenizer()->piece(id)) {
      const bool space = character == ' ' || (character >= '\t' && character <= '\r');
      if (!space) word += character;
      if (space) count += std::exchange(word, "") == "<unk>";
    }
  return count + (word == "<unk>");
}

}  // namespace

void evaluate_text(const LoadedRun& run, const EvalTextFlags& flags) {
  const auto options = run.config.task.completed().options;
  const auto own = options.at("data").get<std::string>();
  const auto shape = run.model->input();
  const auto text = open_text(flags.data.empty() ? own : flags.data, shape.vocabulary);
  require_same_tokenizer(text, flags, shape.vocabulary);
  if (flags.data.empty()) require_ids_of_run(text, flags.run);
  const auto& split = text.split(flags.split);
  const TextWindows windows{.context = shape.length,
                            .stride = flags.stride.value_or(shape.length),
                            .before_first = before_first(text, flags.run)};
  run.model->to(device_named(flags.device, "eval"));
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
  for (const auto& [name, part] : text.splits()) part.file->require_unchanged();
  const auto unknown = unknown_words(text, split);
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
    if (unknown > 0) object["unknown_words"] = unknown;
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
  if (unknown > 0)
    fmt::print(
        "the text has the word <unk> {} times: its word perplexity is lower than that of the words "
        "that it replaces\n",
        unknown);
}

}  // namespace geores::cli
