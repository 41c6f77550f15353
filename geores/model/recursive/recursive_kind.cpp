#include "geores/model/recursive/recursive_kind.h"

#include "geores/base/error.h"
#include "geores/model/recursive/recursive.h"

namespace geores {

ModelKind recursive_kind() {
  return {.name = "recursive",
          .summary = "one small network applied again and again to a puzzle until it halts",
          .options = [](const nlohmann::json&) { return OptionSet::of<RecursiveOptions>(); },
          .all_options = [] { return OptionSet::of<RecursiveOptions>(); },
          .make =
              [](const nlohmann::json& given, const InputShape& input) {
                RecursiveOptions options;
                options.fields().read(given, "recursive");
                require(input.tokens(), "recursive", "reads tokens, not vectors");
                return std::make_shared<Recursive>(options, input);
              }};
}

RecursiveOptions recursive_options(const ModelConfig& config) {
  require(config.kind == "recursive", "model", "model {} is not a recursive one", config.kind);
  RecursiveOptions options;
  options.fields().read(config.options, "recursive");
  return options;
}

}  // namespace geores
