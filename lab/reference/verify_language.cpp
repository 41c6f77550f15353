// Language models: nanoGPT and the public mHC-lite code.
#include "geores/base/config.h"
#include "geores/base/error.h"
#include "geores/model/transformer/transformer.h"
#include "lab/reference/dump_comparison.h"

namespace geores {
namespace {

struct LanguageDumpConfig {
  int64_t batch = 0, length = 0, vocabulary = 0, context = 0;
  int64_t layers = 0, heads = 0, width = 0, streams = 1, sinkhorn_iterations = 20;

  Fields fields() {
    return Fields()
        .add("B", batch, "batch", {.min = 1})
        .add("T", length, "sequence length", {.min = 1})
        .add("vocab", vocabulary, "token ids", {.min = 1, .max = 1e7})
        .add("block_size", context, "positions", {.min = 1, .max = 1e7})
        .add("n_layer", layers, "blocks", {.min = 1, .max = 1e4})
        .add("n_head", heads, "attention heads", {.min = 1})
        .add("n_embd", width, "width", {.min = 1, .max = 1e6})
        .add("n_streams", streams, "streams", {.min = 1, .max = 1e4})
        .add("sinkhorn_iters", sinkhorn_iterations, "of lm_mhc", {.min = 1});
  }
};

// The public code normalises the columns of H_res last, differentiates the iterations, and lets the
// static maps decay as its tensors happen to be packed: in hc and mhc, not in mhc_lite.
nlohmann::json options_of(const std::string& kind, const LanguageDumpConfig& config) {
  if (kind == "lm_hc") return {{"form", "original"}, {"decay_static", true}};
  if (kind == "lm_mhc")
    return {{"sinkhorn_iterations", config.sinkhorn_iterations},
            {"sinkhorn_order", "columns_last"},
            {"sinkhorn_gradient", "unrolled"},
            {"decay_static", true}};
  return nlohmann::json::object();
}

}  // namespace

Verification verify_language(Dump& dump, const std::string& kind,
                             const LanguageSettings& settings) {
  const auto connection = connection_of_language_kind(kind);
  LanguageDumpConfig config;
  const auto json = parse_json(dump.metadata("config"), dump.name());
  config.fields().read(json, dump.name());
  for (const auto* key : {"B", "T", "vocab", "block_size", "n_layer", "n_head", "n_embd"})
    require(json.contains(key), dump.name(), "config has no '{}'", key);
  require(config.length <= config.context, dump.name(), "T = {} is longer than the {} positions",
          config.length, config.context);
  auto options = options_of(kind, config);
  options.update(settings.options);
  Transformer model({.connection = connection,
                     .input = "tokens",
                     .layers = config.layers,
                     .width = config.width,
                     .heads = config.heads,
                     .streams = config.streams,
                     .context = config.context,
                     .vocabulary = config.vocabulary,
                     .options = options});
  model.to(torch::kFloat64);
  DumpedParameters parameters;
  for (const auto& item : model.named_parameters()) {
    auto source = settings.source(kind, item.key(), config.streams);
    parameters.push_back({source.tensor, item.value(), source.part});
  }
  load_parameters(dump, parameters);
  Verification result{
      .kind = kind, .connection = connection, .parameters = parameter_count(model), .groups = {}};

  const std::vector<int64_t> shape = {config.batch, config.length};
  const auto x = dump.read("x", shape, Dtype::i64), y = dump.read("y", shape, Dtype::i64);
  require(x.min().item<int64_t>() >= 0 && x.max().item<int64_t>() < config.vocabulary, dump.name(),
          "tensor 'x' has an id outside of 0..{}", config.vocabulary - 1);
  TrainingStep training(model, settings.optimizer);
  Trace trace;
  const auto out = model.forward(x, trace);
  const auto loss = task_loss(out, y);
  loss.backward();
  result.groups = {compare_tensor(dump, "out", out.detach()),
                   compare_tensor(dump, "loss", loss.detach().view({1})),
                   compare_parameters(dump, parameters, "grad", kLimit,
                                      [](const Tensor& parameter) { return parameter.grad(); })};
  verify_training(dump, training, parameters, "loss", shape, Dtype::i64, result);
  return result;
}

}  // namespace geores
