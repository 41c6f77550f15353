// All residual connections by name. The list in registry.cpp is explicit, because a linker drops
// self-registering objects from a static library. Everything that enumerates connections reads this
// list: the factory, `geores list`, the contract test and the benchmark.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/config.h"
#include "geores/residual/residual.h"

namespace geores {

struct OptionHelp {
  std::string key, help, default_text;
  std::vector<std::string> choices;
};

struct Connection {
  std::string name;
  std::string summary;  // one line
  std::string paper;    // the paper that defines it
  // Sets of options that change the structure; the contract test and the benchmark use all of them.
  std::vector<nlohmann::json> variants = {nlohmann::json::object()};
  // Parameters whose initial gradient is zero by construction; the connection's header explains
  // why.
  std::vector<std::string> silent_at_start = {};
  // Values of options that an old run's config.json lacks, where the old behaviour is not today's
  // default.
  nlohmann::json in_earlier_runs = nlohmann::json::object();
  // Whether there is a form for one token (Residual::token_step) with these options and so many
  // streams; the contract test requires it. Null: not always.
  bool (*has_token_step)(const nlohmann::json& options, int64_t streams) = nullptr;
  std::vector<OptionHelp> options = {};
  std::shared_ptr<Residual> (*make)(const ResidualConfig&) = nullptr;
  // Converts one option from the text of a command line to the JSON value that `make` takes.
  nlohmann::json (*option_from_text)(const std::string& key, const std::string& text) = nullptr;
};

// For Connection::has_token_step.
inline bool always(const nlohmann::json&, int64_t) { return true; }

// An option's value, or its default, from options that may be null.
template <class T>
T option_or(const nlohmann::json& options, const char* key, const T& otherwise) {
  return options.is_object() ? options.value(key, otherwise) : otherwise;
}

// The options of a connection without options.
struct NoOptions {
  Fields fields() { return {}; }
};

// Fills in the members that follow from the types: Make(const ResidualConfig&, const Options&) and
// Options::fields().
template <class Options, auto Make>
Connection describe_connection_by(Connection connection) {
  Options defaults;
  const auto fields = defaults.fields();
  for (const auto& field : fields.all())
    connection.options.push_back({field.key, field.help, field.default_text, field.choices});
  static const std::string name = connection.name;
  connection.make = [](const ResidualConfig& config) -> std::shared_ptr<Residual> {
    Options options;
    options.fields().read(config.options, name);
    return Make(config, options);
  };
  connection.option_from_text = [](const std::string& key, const std::string& text) {
    Options options;
    const auto known = options.fields();
    for (const auto& field : known.all())
      if (field.key == key) {
        field.set_from_text(text, name);
        return field.to_json();
      }
    known.read({{key, text}}, name);  // throws for an unknown key and names the nearest one
    return nlohmann::json();
  };
  return connection;
}

// The same for a connection that is one class: Module(const ResidualConfig&, const Options&).
template <class Module, class Options>
std::shared_ptr<Residual> make_connection(const ResidualConfig& config, const Options& options) {
  return std::make_shared<Module>(config, options);
}
template <class Module, class Options>
Connection describe_connection(Connection connection) {
  return describe_connection_by<Options, make_connection<Module, Options>>(std::move(connection));
}

const std::vector<Connection>& connections();

// Throws an Error that names the nearest known connection if `name` is not registered.
const Connection& find_connection(const std::string& name);

std::shared_ptr<Residual> make_residual(const std::string& name, const ResidualConfig& config = {});

}  // namespace geores
