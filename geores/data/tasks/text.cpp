#include "geores/data/tasks/text.h"

#include "geores/base/config.h"
#include "geores/base/error.h"
#include "geores/ops/training/sequences.h"

namespace geores {
namespace {

struct TextOptions {
  std::string data;
  int64_t context = 256;
  std::string sampling = "random";
  int64_t vocabulary = 0;
  int64_t validation_ids = 0;

  Fields fields() {
    return Fields()
        .add("data", data, "folder of prepared text, see `geores data text`")
        .add("context", context, "ids of a window", {.min = 1})
        .choice("sampling", sampling, {"random", "epochs"},
                "windows drawn with replacement, or each once an epoch")
        .add("vocabulary", vocabulary, "ids, for a folder without data.json; 0: data.json says it",
             {.min = 0, .max = static_cast<double>(kMostIds)})
        .add("validation_ids", validation_ids,
             "validate on the first so many ids of the validation text; 0: on all", {.min = 0});
  }
};

void add_windows(const Tensor& ids, int64_t length, const std::string& file, Tensor& x, Tensor& y) {
  require(ids.size(0) > length, file, "has {} ids, a context of {} needs at least {}", ids.size(0),
          length, length + 1);
  const auto count = ids.size(0) - length;
  x = windows_of(ids, length, 0, count);
  y = windows_of(ids, length, 1, count);
}

Dataset load_text(const nlohmann::json& given, const std::string&) {
  TextOptions options;
  options.fields().read(given, "text");
  require(!options.data.empty(), "text", "--data DIR is required: a folder of `geores data text`");
  const auto text = PreparedText::open(options.data, options.vocabulary);
  const auto &train = text.split("train"), &validation = text.split("val");
  Dataset data;
  data.task = "text";
  data.vocabulary = text.vocabulary();
  data.spare_positions = 0;
  data.by_epochs = options.sampling == "epochs";
  data.train_ids = ids_tensor(train);
  data.validation_ids = ids_tensor(validation);
  if (options.validation_ids > 0 && options.validation_ids < data.validation_ids.size(0))
    data.validation_ids = data.validation_ids.slice(0, 0, options.validation_ids);
  data.before_first = text.before_first();
  add_windows(data.train_ids, options.context, train.file->path().string(), data.train_x,
              data.train_y);
  add_windows(data.validation_ids, options.context, validation.file->path().string(),
              data.validation_x, data.validation_y);
  data.require_unchanged = [train, validation] {
    train.file->require_unchanged();
    validation.file->require_unchanged();
  };
  data.origin.facts = {{"vocabulary", text.vocabulary()},
                       {"train_ids_sha256", train.sha256},
                       {"val_ids_sha256", validation.sha256}};
  if (text.tokenizer()) {
    data.origin.facts["tokenizer_sha256"] = text.tokenizer()->fingerprint();
    data.origin.facts["train_sha256"] = train.facts->sha256;
    for (const auto* name : {"tokenizer.json", "tokenizer.model"})
      data.origin.companions.push_back(options.data + "/" + name);
  }
  return data;
}

}  // namespace

Tensor ids_tensor(const PreparedSplit& split) {
  const auto ids = split.ids();
  // It is never written: the file is mapped read-only.
  return torch::from_blob(
      const_cast<Id*>(ids.data()), {static_cast<int64_t>(ids.size())},
      [file = split.file](void*) {}, torch::kInt16);
}

Task text_task() {
  return {.name = "text",
          .summary = "predict the next token of prepared text",
          .options = OptionSet::of<TextOptions>(),
          .load = load_text};
}

}  // namespace geores
