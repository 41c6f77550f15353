// All kinds of models by name. The list in registry.cpp is explicit (static self-registration does
// not survive a static library). A program with its own model passes its own list to train() and
// load_run() (train/catalogue.h).
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/option_set.h"
#include "geores/model/model.h"

namespace geores {

struct ModelKind {
  std::string name;
  std::string summary;  // one line
  // The options that exist for these values: a connection adds its own.
  std::function<OptionSet(const nlohmann::json& given)> options;
  // All options for any values, for flags.
  std::function<OptionSet()> all_options;
  // `options` must be complete.
  std::function<std::shared_ptr<Model>(const nlohmann::json& options, const InputShape& input)>
      make;
  // The option that determines the others. "model": WORD, where WORD is not a kind, sets it, so
  // `--model edelta` is a transformer with the connection edelta. Empty: there is none.
  std::string leading_option = {};
  // Completes the options of a run that an earlier version wrote, with values for newer options
  // that reproduce that version. Empty: nothing to add.
  std::function<nlohmann::json(const nlohmann::json& given)> from_earlier_run = {};
};
using ModelKinds = std::vector<ModelKind>;

const ModelKinds& model_kinds();

// Throws and names the nearest known name.
const ModelKind& find_model_kind(const ModelKinds& kinds, const std::string& name);

// A kind of model with its options; missing ones have default values.
struct ModelConfig {
  std::string kind = "transformer";
  nlohmann::json options = nlohmann::json::object();

  // Adds all options of the kind. Throws for options that it does not have.
  ModelConfig completed(const ModelKinds& kinds = model_kinds()) const;

  // One flat object: {"model": kind, ...options}.
  nlohmann::json to_json() const;

  // A short name: the value of the leading option ("edelta"), or the kind.
  std::string label(const ModelKinds& kinds = model_kinds()) const;
};

std::shared_ptr<Model> make_model(const ModelConfig& config, const InputShape& input,
                                  const ModelKinds& kinds = model_kinds());

}  // namespace geores
