#include "cli/lab/bench_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "geores/base/error.h"
#include "geores/model/recursive/recursive_kind.h"
#include "geores/model/transformer/parameter_budget.h"
#include "geores/model/transformer/transformer_kind.h"
#include "geores/train/run/presets.h"
#include "geores/train/run/train_config.h"

namespace geores::cli {
namespace {

// The models of the EΔ paper's comparison as they are (EΔ with both gates); the other connections
// at the depth that gives them as many parameters.
std::vector<BenchSize> paper_sizes(const std::string& connection) {
  std::vector<BenchSize> sizes;
  for (const auto& preset : presets()) {
    TrainConfig config;
    config.read(preset.config, preset.name);
    config.complete();
    const auto size = transformer_config(config.model.options, {});
    if (size.connection == connection)
      sizes.push_back({connection, size.layers, size.width, preset.name, size.options});
  }
  if (sizes.size() == 1)
    sizes[0].label = connection;  // a preset may have another connection's name
  if (!sizes.empty()) return sizes;
  constexpr int64_t edelta_parameters = 1787688;
  const int64_t width = connection == "edelta_stream" ? 512 : 128;  // its sublayers see a stream
  const auto budget = parameter_budget({.connection = connection, .width = width});
  return {{connection, layers_for(budget, edelta_parameters), width}};
}

struct Variant {
  std::string connection;
  std::string suffix;  // ":KEY=VALUE,…" as it was written, or nothing
  nlohmann::json options = nlohmann::json::object();
};

// NAME or NAME:KEY=VALUE,KEY=VALUE. The connection's factory refuses a wrong key or value.
Variant variant_from(const std::string& text) {
  const auto colon = std::min(text.find(':'), text.size());
  Variant variant{.connection = text.substr(0, colon), .suffix = text.substr(colon)};
  find_connection(variant.connection);
  std::istringstream options(variant.suffix);
  options.ignore();  // the colon
  for (std::string option; std::getline(options, option, ',');) {
    const auto equals = option.find('=');
    require(equals != std::string::npos && equals > 0, "bench",
            "'{}' in --models must be KEY=VALUE, as in additive:branch_power=0.5", option);
    const auto value = option.substr(equals + 1);
    const auto parsed = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
    variant.options[option.substr(0, equals)] =
        parsed.is_discarded() ? nlohmann::json(value) : parsed;
  }
  return variant;
}

BenchSize with_options(BenchSize size, const Variant& variant) {
  if (variant.options.empty()) return size;
  size.label += variant.suffix;
  if (size.options.is_null()) size.options = nlohmann::json::object();
  size.options.update(variant.options);
  return size;
}

// A connection that pools over the sequence may do so over the past alone.
BenchSize text_size(const Connection& connection, const BenchFlags& flags) {
  BenchSize size{connection.name, flags.layers, flags.width};
  for (const auto& option : connection.options)
    if (option.key == "pool") size.options = {{"pool", "causal"}};
  return size;
}

// Recursive models with these mixers, in layout expand; the model itself refuses an unknown one.
std::vector<BenchSize> puzzle_sizes(const BenchFlags& flags) {
  require(!flags.text && !flags.alone && !flags.scaling, "bench",
          "--puzzles goes with none of --text, --generate, --connection-alone and --scaling");
  const std::vector<std::string> studied = {"none",     "cayley",           "sinkhorn",
                                            "identity", "sinkhorn_softmax", "edelta"};
  std::vector<BenchSize> sizes;
  for (const auto& mixer : flags.models.empty() ? studied : flags.models)
    sizes.push_back({mixer, flags.layers, flags.width});
  return sizes;
}

std::shared_ptr<Model> puzzle_model(const BenchSize& size, const BenchFlags& flags) {
  const nlohmann::json options = {{"mixer", size.connection},
                                  {"layout", "expand"},
                                  {"width", size.width},
                                  {"streams", flags.streams},
                                  {"heads", flags.heads},
                                  {"layers", size.layers},
                                  {"l_cycles", 4}};
  return recursive_kind().make(
      options, {.length = flags.length, .width = 1, .vocabulary = flags.vocabulary});
}

}  // namespace

void BenchFlags::complete() {
  const auto fill = [](int64_t& value, int64_t otherwise) {
    if (value == 0) value = otherwise;
  };
  text = text || generate;
  if (puzzles) {
    fill(length, 900), fill(layers, 2), fill(width, 512), fill(heads, 8), fill(vocabulary, 12);
  }
  fill(batch, text ? 16 : 64);
  fill(length, generate ? 512 : text ? 1024 : 255);
  if (precision.empty()) precision = device == "cuda" ? "bf16" : "fp32";
  if (!text) return;
  fill(layers, 12);
  fill(width, generate ? 384 : 768);
  fill(heads, generate ? 6 : 12);
  fill(vocabulary, generate ? 8192 : 50304);
}

std::string first_column(const std::string& label) {
  constexpr size_t width = 16;
  return label.size() <= width ? fmt::format("{:<{}}", label, width)
                               : fmt::format("{}\n{:<{}}", label, "", width);
}

std::vector<BenchSize> wanted_sizes(const BenchFlags& flags) {
  if (flags.puzzles) return puzzle_sizes(flags);
  std::vector<Variant> variants;
  for (const auto& model : flags.models) {
    variants.push_back(variant_from(model));
    require(!flags.scaling || variants.back().options.empty(), "bench",
            "--scaling takes connections without options, not '{}'", model);
  }
  if (variants.empty())
    for (const auto& connection : connections()) variants.push_back(variant_from(connection.name));
  std::vector<BenchSize> sizes;
  for (const auto& variant : variants) {
    if (flags.text)
      sizes.push_back(with_options(text_size(find_connection(variant.connection), flags), variant));
    else
      for (const auto& size : paper_sizes(variant.connection))
        sizes.push_back(with_options(size, variant));
  }
  return sizes;
}

TransformerConfig config_of(const BenchSize& size, const BenchFlags& flags) {
  TransformerConfig config{.connection = size.connection,
                           .layers = flags.layers > 0 ? flags.layers : size.layers,
                           .width = flags.width > 0 ? flags.width : size.width,
                           .streams = flags.streams,
                           .context = flags.length,
                           .options = size.options};
  if (flags.heads > 0) config.heads = flags.heads;
  if (flags.text) {
    config.input = "tokens";
    config.vocabulary = flags.vocabulary;
  }
  return config;
}

std::shared_ptr<Model> model_of(const BenchSize& size, const BenchFlags& flags) {
  if (flags.puzzles) return puzzle_model(size, flags);
  auto model = std::make_shared<Transformer>(config_of(size, flags));
  model->set_recompute(recompute_from(flags.checkpoint));
  return model;
}

}  // namespace geores::cli
