#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>

#include "cli/commands.h"
#include "geores/base/pages/table.h"
#include "geores/data/registry.h"
#include "geores/model/registry.h"
#include "geores/model/transformer/transformer.h"
#include "geores/train/run/presets.h"

namespace geores::cli {
namespace {

struct ListFlags {
  std::string connection;
  int64_t layers = 6, width = 128, streams = 4;
  bool json = false;
};

struct Entry {
  const Connection& connection;
  Traits traits;
  int64_t connection_parameters, model_parameters;
};

// The model of the papers' parameter counts: tokens of a vocabulary of one, 64 positions.
Entry describe(const Connection& connection, const ListFlags& flags) {
  const auto residual =
      connection.make({.width = flags.width, .streams = flags.streams, .options = nullptr});
  const Transformer model({.connection = connection.name,
                           .input = "tokens",
                           .layers = flags.layers,
                           .width = flags.width,
                           .heads = heads_that_fit(flags.width, 4),  // no matter for the count
                           .streams = flags.streams,
                           .context = 64,
                           .vocabulary = 1,
                           .allow_noncausal = true});
  return {connection, residual->traits(), parameter_count(*residual), parameter_count(model)};
}

nlohmann::json to_json(const Entry& entry) {
  auto options = nlohmann::json::array();
  for (const auto& option : entry.connection.options)
    options.push_back({{"key", option.key},
                       {"default", option.default_text},
                       {"choices", option.choices},
                       {"help", option.help}});
  return {{"name", entry.connection.name},
          {"summary", entry.connection.summary},
          {"paper", entry.connection.paper},
          {"layout", to_string(entry.traits.layout)},
          {"causal", entry.traits.causal},
          {"orthogonal", entry.traits.orthogonal},
          {"starts_as", to_string(entry.traits.initial_map)},
          {"state_width", entry.traits.state_width},
          {"sublayer_width", entry.traits.sublayer_width},
          {"connection_parameters", entry.connection_parameters},
          {"model_parameters", entry.model_parameters},
          {"options", options}};
}

nlohmann::json options_json(const std::vector<OptionDescription>& options) {
  auto array = nlohmann::json::array();
  for (const auto& option : options)
    array.push_back({{"key", option.key},
                     {"default", option.default_text},
                     {"choices", option.choices},
                     {"help", option.help}});
  return array;
}

// Tasks or kinds of models with their options.
template <class Named, class Options>
nlohmann::json named_json(const std::vector<Named>& all, Options&& options) {
  auto array = nlohmann::json::array();
  for (const auto& one : all)
    array.push_back({{"name", one.name},
                     {"summary", one.summary},
                     {"options", options_json(options(one).all())}});
  return array;
}

nlohmann::json tasks_json() {
  return named_json(tasks(), [](const Task& task) { return task.options; });
}

nlohmann::json models_json() {
  return named_json(model_kinds(), [](const ModelKind& kind) { return kind.options({}); });
}

nlohmann::json presets_json() {
  auto array = nlohmann::json::array();
  for (const auto& preset : presets())
    array.push_back({{"name", preset.name}, {"label", preset.label}, {"config", preset.config}});
  return array;
}

void print_table(const std::vector<Entry>& entries, const ListFlags& flags) {
  Table table{
      "", {"connection", "layout", "causal", "orthogonal", "starts as", "parameters", "model"}, {}};
  for (const auto& entry : entries)
    table.rows.push_back(
        {entry.connection.name, to_string(entry.traits.layout), entry.traits.causal ? "yes" : "no",
         entry.traits.orthogonal ? "yes" : "no", to_string(entry.traits.initial_map),
         fmt::format("{}", entry.connection_parameters),
         fmt::format("{}", entry.model_parameters)});
  fmt::print(
      "{}\n"
      "At the defaults of each connection, width {}, {} streams. model: {} layers, 64 positions,\n"
      "vocabulary 1. causal, orthogonal and the start may change with the options:\n"
      "`geores list NAME` shows them.\n",
      to_text(table), flags.width, flags.streams, flags.layers);

  fmt::print("\nmodels (--model), `--model CONNECTION` is a transformer with that connection\n");
  for (const auto& kind : model_kinds()) fmt::print("  {:<15} {}\n", kind.name, kind.summary);
  fmt::print("\ntasks (--task)\n");
  for (const auto& task : tasks()) fmt::print("  {:<15} {}\n", task.name, task.summary);
  fmt::print("\npresets (--preset): the models of the EΔ paper's tables at their sizes\n");
  for (const auto& preset : presets()) fmt::print("  {:<15} {}\n", preset.name, preset.label);
}

void print_details(const Entry& entry) {
  fmt::print(
      "{}: {}\n{}\n\nlayout {}, state width {}, sublayer width {}, starts as {}\n"
      "causal: {}, orthogonal: {}\nparameters: {} a connection, {} the model\n",
      entry.connection.name, entry.connection.summary, entry.connection.paper,
      to_string(entry.traits.layout), entry.traits.state_width, entry.traits.sublayer_width,
      to_string(entry.traits.initial_map), entry.traits.causal ? "yes" : "no",
      entry.traits.orthogonal ? "yes" : "no", entry.connection_parameters, entry.model_parameters);
  if (entry.connection.options.empty()) return;
  fmt::print("\noptions:\n");
  for (const auto& option : entry.connection.options) {
    fmt::print("  {:<20} {:<12} {}\n", option.key, option.default_text, option.help);
    if (!option.choices.empty())
      fmt::print("  {:<20} {:<12} one of {}\n", "", "", fmt::join(option.choices, ", "));
  }
}

void list(const ListFlags& flags) {
  std::vector<Entry> entries;
  if (flags.connection.empty())
    for (const auto& connection : connections()) entries.push_back(describe(connection, flags));
  else
    entries.push_back(describe(find_connection(flags.connection), flags));

  if (flags.json) {
    auto array = nlohmann::json::array();
    for (const auto& entry : entries) array.push_back(to_json(entry));
    const nlohmann::json object = {{"layers", flags.layers},   {"width", flags.width},
                                   {"streams", flags.streams}, {"connections", array},
                                   {"models", models_json()},  {"tasks", tasks_json()},
                                   {"presets", presets_json()}};
    fmt::print("{}\n", object.dump(2));
  } else if (flags.connection.empty()) {
    print_table(entries, flags);
  } else {
    print_details(entries.front());
  }
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ListFlags>();
  auto* command = app.add_subcommand(
      "list",
      "Residual connections with their traits and parameter counts, tasks and presets.\n"
      "Without a name: a table of all. With a name: that connection and its options.\n"
      "Example: geores list jpmhc --layers 7 --width 512");
  command->add_option("connection", flags->connection, "one connection, in detail");
  command->add_option("--layers", flags->layers, "blocks of the counted model")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--width", flags->width, "values per token")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--streams", flags->streams, "residual streams")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] {
    list(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
