#include "geores/model/transformer/transformer_kind.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {
namespace {

OptionSet options_of(const Connection& connection) {
  std::vector<OptionDescription> all;
  for (const auto& option : connection.options)
    all.push_back({option.key, option.help, option.default_text, option.choices});
  // The connection checks values when it is created; this adds defaults.
  const auto complete = [&connection](const nlohmann::json& given, const std::string&) {
    auto object = nlohmann::json::object();
    for (const auto& option : connection.options)
      object[option.key] = given.contains(option.key)
                               ? given[option.key]
                               : connection.option_from_text(option.key, option.default_text);
    return object;
  };
  const auto from_text = [&connection](const std::string& key, const std::string& text,
                                       const std::string&) {
    return connection.option_from_text(key, text);
  };
  return {std::move(all), complete, from_text};
}

OptionSet own_options() { return OptionSet::of<TransformerConfig>(); }

OptionSet options_with(const nlohmann::json& given) {
  auto name = TransformerConfig().connection;
  if (given.is_object() && given.contains("connection")) {
    require(given["connection"].is_string(), "transformer", "'connection' must be text, got {}",
            given["connection"].dump());
    name = given["connection"].get<std::string>();
  }
  return own_options().joined(options_of(find_connection(name)));
}

// Two connections may have an option of the same name; the first one's description is used.
OptionSet every_option() {
  auto all = own_options().all();
  for (const auto& connection : connections())
    for (const auto& option : connection.options)
      if (std::ranges::find(all, option.key, &OptionDescription::key) == all.end())
        all.push_back({option.key, option.help, option.default_text, option.choices});
  return {std::move(all), {}, {}};
}

nlohmann::json from_earlier_run(nlohmann::json given) {
  const auto name = given.value("connection", TransformerConfig().connection);
  for (const auto& [key, value] : find_connection(name).in_earlier_runs.items())
    if (!given.contains(key)) given[key] = value;
  return given;
}

}  // namespace

TransformerConfig transformer_config(const nlohmann::json& options, const InputShape& input) {
  TransformerConfig config;
  auto own = nlohmann::json::object(), rest = nlohmann::json::object();
  const auto mine = own_options();
  for (const auto& [key, value] : options.items()) (mine.has(key) ? own : rest)[key] = value;
  config.fields().read(own, "transformer");
  config.options = rest;
  config.input = input.tokens() ? "tokens" : "continuous";
  config.context = input.length + input.spare_positions;
  config.input_width = input.width;
  config.vocabulary = std::max<int64_t>(input.vocabulary, 1);
  return config;
}

ModelKind transformer_kind() {
  return {.name = "transformer",
          .summary = "attention and MLP blocks around a residual connection",
          .options = options_with,
          .all_options = every_option,
          .make =
              [](const nlohmann::json& options, const InputShape& input) {
                return std::make_shared<Transformer>(transformer_config(options, input));
              },
          .leading_option = "connection",
          .from_earlier_run = from_earlier_run};
}

}  // namespace geores
