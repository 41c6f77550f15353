#include "lab/experiments/language/measures.h"

#include <algorithm>
#include <filesystem>

#include "geores/data/tasks/text.h"
#include "geores/data/validation_sample.h"
#include "geores/generation/generator.h"
#include "geores/modules/seeding.h"
#include "geores/train/run/finished_run.h"
#include "geores/train/run/run_folder.h"
#include "geores/train/text_evaluation.h"
#include "lab/diagnostics/diagnostics_log.h"
#include "lab/diagnostics/mixer_report.h"
#include "lab/experiments/runner.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUseBatches = 4, kUseRows = 16;
constexpr int64_t kSampleIds = 300;

std::vector<Batch> use_batches(const Dataset& dataset) {
  const auto sample = validation_sample(dataset, kUseBatches * kUseRows);
  std::vector<Batch> batches;
  const auto xs = sample.x.split(kUseRows), ys = sample.y.split(kUseRows);
  for (size_t i = 0; i < xs.size(); ++i) batches.push_back({xs[i], ys[i]});
  return batches;
}

double accuracy(Model& model, const Dataset& dataset, const torch::Device& device) {
  const torch::NoGradGuard no_grad;
  int64_t right = 0, all = 0;
  const auto sample = validation_sample(dataset, 512);
  const auto xs = sample.x.split(32), ys = sample.y.split(32);
  for (size_t i = 0; i < xs.size(); ++i) {
    Trace trace;
    const auto said = model.predict(xs[i].to(device), trace).argmax(-1), y = ys[i].to(device);
    const auto scored = y >= 0;
    right += (scored & (said == y)).sum().item<int64_t>();
    all += scored.sum().item<int64_t>();
  }
  return static_cast<double>(right) / static_cast<double>(std::max<int64_t>(1, all));
}

nlohmann::json loss_on(Model& model, const PreparedText& text) {
  const auto& split = text.split("val");
  const auto context = model.input().length;
  const auto loss =
      text_loss(model, ids_tensor(split),
                {.context = context, .stride = context, .before_first = text.before_first()});
  nlohmann::json object = {{"nats", loss.mean()}, {"ids", loss.ids}};
  if (split.facts) {
    object["bits_per_byte"] = loss.bits_per_byte(split.facts->bytes);
    object["word_perplexity"] = loss.word_perplexity(split.facts->words);
  }
  return object;
}

// Every text in DATA-other that has the run's tokeniser.
nlohmann::json losses_on_others(Model& model, const PreparedText& own) {
  auto all = nlohmann::json::object();
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(own.folder() + "-other", none)) {
    if (!fs::exists(entry.path() / "data.json", none)) continue;
    const auto text = PreparedText::open(entry.path().string());
    if (own.tokenizer() && text.tokenizer() &&
        text.tokenizer()->fingerprint() == own.tokenizer()->fingerprint())
      all[entry.path().filename().string()] = loss_on(model, text);
  }
  return all;
}

// Ids, bytes and words of the scored text: the validation text, or its first ids.
nlohmann::json size_of_scored(const PreparedText& text, size_t scored) {
  const auto& split = text.split("val");
  if (!split.facts) return nullptr;
  if (scored >= split.ids().size())
    return {
        {"ids", split.facts->ids}, {"bytes", split.facts->bytes}, {"words", split.facts->words}};
  // Ends of text are ids without bytes or words.
  const auto end = text.tokenizer()->end_of_text();
  int64_t bytes = 0, words = 0;
  for (auto rest = split.ids().first(scored); !rest.empty();) {
    const auto length =
        static_cast<size_t>(end ? std::ranges::find(rest, *end) - rest.begin() : std::ssize(rest));
    const auto document = text.tokenizer()->decode(rest.first(length));
    bytes += std::ssize(document);
    words += count_words(document);
    rest = rest.subspan(std::min(rest.size(), length + 1));
  }
  return {{"ids", scored}, {"bytes", bytes}, {"words", words}};
}

// Generated on the CPU, one id at a time.
std::string sample_of_text(Model& model, const PreparedText& text) {
  if (!text.tokenizer()) return "";
  model.to(torch::kCPU);
  Generator generator(model, {text.before_first()},
                      {.sampling = {.temperature = 0.8, .seed = 1337}});
  for (int64_t i = 0; i < kSampleIds; ++i) generator.next();
  return text.tokenizer()->decode(std::span(generator.ids()).subspan(1));
}

}  // namespace

nlohmann::json measure_run(const std::string& run_folder, const std::vector<std::string>& what,
                           const Dataset& dataset, const std::string& device_name,
                           const std::function<void()>& before_each_part) {
  const auto is_asked = [&](const char* name) { return std::ranges::count(what, name) > 0; };
  const auto asked = [&](const char* name) {
    if (!is_asked(name)) return false;
    before_each_part();
    return true;
  };
  const torch::Device device(device_name);
  const auto run = load_run(run_folder);
  run.model->to(device);
  nlohmann::json result = {{"step", run.step}, {"parts", what}};
  const DiagnosedParts parts{
      .mixers = is_asked("mixers"), .ranks = is_asked("ranks"), .betas = is_asked("beta")};
  if (parts.mixers || parts.ranks || parts.betas) {
    const auto start = with_seed(
        run.config.seed, [&] { return make_model(run.config.model, input_shape(dataset)); });
    start->to(device);
    const auto x = validation_sample(dataset, kDiagnosedSequences).x;
    before_each_part();
    result["start"] = diagnostics_line(0, *start, x, parts);
    before_each_part();
    result["end"] = diagnostics_line(run.step, *run.model, x, parts);
  }
  if (asked("use"))
    if (const auto use = measure_use(*run.model, use_batches(dataset)))
      result["use"] = use->to_json();
  if (asked("gradients")) {
    std::vector<double> norms;
    for (const auto& line : read_metrics(run_folder))
      if (line.contains("grad_norm") && line["grad_norm"].is_number())
        norms.push_back(line["grad_norm"].get<double>());
    result["gradient_norms"] = describe_gradient_norms(norms, run.config.clip).to_json();
  }
  if (asked("accuracy") && dataset.tokens() && !dataset.text())
    result["accuracy"] = accuracy(*run.model, dataset, device);
  if (!dataset.text()) return result;
  const auto options = run.config.task.completed().options;
  const auto text = PreparedText::open(options.at("data").get<std::string>(),
                                       options.at("vocabulary").get<int64_t>());
  if (asked("text"))
    if (const auto size = size_of_scored(text, static_cast<size_t>(dataset.validation_ids.size(0)));
        !size.is_null())
      result["text"] = size;
  if (asked("other_texts")) result["other_texts"] = losses_on_others(*run.model, text);
  if (asked("sample")) result["sample"] = sample_of_text(*run.model, text);
  return result;
}

}  // namespace geores
