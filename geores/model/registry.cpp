#include "geores/model/registry.h"

#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/model/recursive/recursive_kind.h"
#include "geores/model/transformer/transformer_kind.h"

namespace geores {

const ModelKinds& model_kinds() {
  static const ModelKinds all = {
      transformer_kind(),
      recursive_kind(),
  };
  return all;
}

const ModelKind& find_model_kind(const ModelKinds& kinds, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& kind : kinds) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  fail("model", "unknown model '{}'{}", name, did_you_mean(name, known));
}

ModelConfig ModelConfig::completed(const ModelKinds& kinds) const {
  return {kind, find_model_kind(kinds, kind).options(options).complete(options, kind)};
}

nlohmann::json ModelConfig::to_json() const {
  nlohmann::json object = {{"model", kind}};
  object.update(options);
  return object;
}

std::string ModelConfig::label(const ModelKinds& kinds) const {
  const auto& leading = find_model_kind(kinds, kind).leading_option;
  return leading.empty() ? kind : completed(kinds).options.at(leading).get<std::string>();
}

std::shared_ptr<Model> make_model(const ModelConfig& config, const InputShape& input,
                                  const ModelKinds& kinds) {
  return find_model_kind(kinds, config.kind).make(config.completed(kinds).options, input);
}

}  // namespace geores
