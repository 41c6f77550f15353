// All kinds of models by name. The list in registry.cpp is explicit (static self-registration does
// not survive a static library). A program with a model of its own makes a list of its own and
// gives it to train() and load_run() (train/catalogue.h).
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
  // The options there are when these are given: a connection brings its own.
  std::function<OptionSet(const nlohmann::json& given)> options;
  // Every option it may have, whatever the others are: for flags.
  std::function<OptionSet()> all_options;
  // `options` is complete.
  std::function<std::shared_ptr<Model>(const nlohmann::json& options, const InputShape& input)>
      make;
  // The option that decides which others there are. "model": WORD, where WORD is no kind, sets it:
  // so `--model edelta` is a transformer with the connection edelta. Empty: there is none.
  std::string leading_option = {};
  // The options of a run whose config.json an earlier version wrote, with those that did not exist
  // then at the values that mean what that version did. Empty: nothing to add.
  std::function<nlohmann::json(const nlohmann::json& given)> from_earlier_run = {};
};
using ModelKinds = std::vector<ModelKind>;

const ModelKinds& model_kinds();

// Fails with the nearest known name.
const ModelKind& find_model_kind(const ModelKinds& kinds, const std::string& name);

// Which model: a kind and those of its options that are not to have their default values.
struct ModelConfig {
  std::string kind = "transformer";
  nlohmann::json options = nlohmann::json::object();

  // With all options of the kind. Refuses options that it does not have.
  ModelConfig completed(const ModelKinds& kinds = model_kinds()) const;

  // One flat object: {"model": kind, ...options}.
  nlohmann::json to_json() const;

  // In a word: the value of the leading option ("edelta"), or the kind.
  std::string label(const ModelKinds& kinds = model_kinds()) const;
};

std::shared_ptr<Model> make_model(const ModelConfig& config, const InputShape& input,
                                  const ModelKinds& kinds = model_kinds());

}  // namespace geores
