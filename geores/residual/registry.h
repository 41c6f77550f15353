// All residual connections by name. The list in registry.cpp is explicit (static self-registration
// does not survive a static library); everything that enumerates connections follows from it: the
// factory, `geores list`, the contract test, the benchmark, the README table.
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
  std::string paper;    // where it is defined
  // Option sets that change the structure; the contract test and the benchmark run all of them.
  std::vector<nlohmann::json> variants = {nlohmann::json::object()};
  // Parameters whose gradient is zero at initialisation by construction (the header says why).
  std::vector<std::string> silent_at_start = {};
  std::vector<OptionHelp> options = {};
  std::shared_ptr<Residual> (*make)(const ResidualConfig&) = nullptr;
  // One option from a command line's text, as the JSON value that `make` takes.
  nlohmann::json (*option_from_text)(const std::string& key, const std::string& text) = nullptr;
};

// Options of a connection that has none.
struct NoOptions {
  Fields fields() { return {}; }
};

// Fills in what follows from the types: Module(const ResidualConfig&, Options), Options::fields().
template <class Module, class Options>
Connection describe_connection(Connection connection) {
  Options defaults;
  const auto fields = defaults.fields();
  for (const auto& field : fields.all())
    connection.options.push_back({field.key, field.help, field.default_text, field.choices});
  static const std::string name = connection.name;
  connection.make = [](const ResidualConfig& config) -> std::shared_ptr<Residual> {
    Options options;
    options.fields().read(config.options, name);
    return std::make_shared<Module>(config, options);
  };
  connection.option_from_text = [](const std::string& key, const std::string& text) {
    Options options;
    const auto known = options.fields();
    for (const auto& field : known.all())
      if (field.key == key) {
        field.set_from_text(text, name);
        return field.to_json();
      }
    known.read({{key, text}}, name);  // refuses the unknown key and names the nearest
    return nlohmann::json();
  };
  return connection;
}

const std::vector<Connection>& connections();

// Fails with the nearest known name when `name` is not registered.
const Connection& find_connection(const std::string& name);

std::shared_ptr<Residual> make_residual(const std::string& name, const ResidualConfig& config = {});

}  // namespace geores
