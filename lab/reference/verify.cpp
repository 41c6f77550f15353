#include "lab/reference/verify.h"

#include <algorithm>
#include <cmath>

#include "geores/base/config.h"
#include "geores/base/error.h"
#include "geores/model/transformer/transformer.h"
#include "geores/portable/reference/names.h"
#include "lab/reference/dump_comparison.h"
#include "lab/reference/verify_recursive.h"

namespace geores {
namespace {

// The keys of the reference's configuration.
struct DumpConfig {
  int64_t batch = 0, length = 0, input_width = 0;
  int64_t layers = 0, heads = 0, width = 0, streams = 4;
  int64_t sinkhorn_iterations = 20, cayley_iterations = 2;
  int64_t hidden_ratio = 4, hidden = 48;
  double cayley_alpha = 0.1, gate_bias = 0, gate_weight = 0.1;
  std::string gate = "plain";

  Fields fields() {
    return Fields()
        .add("B", batch, "batch", {.min = 1})
        .add("T", length, "sequence length", {.min = 1})
        .add("d", input_width, "values per input vector", {.min = 1})
        .add("n_layer", layers, "blocks", {.min = 1, .max = 1e4})
        .add("n_head", heads, "attention heads", {.min = 1})
        .add("n_embd", width, "width", {.min = 1, .max = 1e6})
        .add("n_streams", streams, "streams", {.min = 1, .max = 1e4})
        .add("sinkhorn_iters", sinkhorn_iterations, "of mhc", {.min = 1})
        .add("cayley_alpha", cayley_alpha, "of jpmhc")
        .add("cayley_iters", cayley_iterations, "of jpmhc", {.min = 0})
        .add("init_gate_bias", gate_bias, "of edelta; the weights have the final word")
        .add("gate_reg_weight", gate_weight, "of edelta", {.min = 0})
        .add("geo_hidden_ratio", hidden_ratio, "of edelta", {.min = 1})
        .add("geo_hidden_dim", hidden, "of edelta_stream", {.min = 1})
        .choice("gate", gate, {"plain", "entropy"}, "of edelta");
  }
};

nlohmann::json connection_options(const std::string& connection, const DumpConfig& config) {
  if (connection == "edelta")
    return {{"gate", config.gate},
            {"gate_bias", config.gate_bias},
            {"gate_weight", config.gate_weight},
            {"hidden_ratio", config.hidden_ratio},
            {"init", "reference"}};
  // The reference trains edelta_stream without a gate loss.
  if (connection == "edelta_stream") return {{"hidden", config.hidden}, {"gate_weight", 0.0}};
  if (connection == "mhc_split") return {{"sinkhorn_iterations", config.sinkhorn_iterations}};
  if (connection == "jpmhc")
    return {{"cayley_alpha", config.cayley_alpha}, {"cayley_iterations", config.cayley_iterations}};
  return nlohmann::json::object();
}

Tensor loss_or_zero(const Trace& trace, const Tensor& like) {
  const auto loss = trace.loss();
  return loss.defined() ? loss : torch::zeros({}, like.options());
}

DumpedParameters dumped_parameters(const Transformer& model) {
  DumpedParameters all;
  for (const auto& item : model.named_parameters()) {
    const auto leading_one = item.key() == "positions";  // there
    all.push_back({reference_name(model.config().connection, item.key()), item.value(),
                   [leading_one](const Tensor& t) { return leading_one ? t.squeeze(0) : t; }});
  }
  return all;
}

}  // namespace

bool Verification::passed() const {
  return std::all_of(groups.begin(), groups.end(), [](const auto& g) { return g.passed(); });
}

nlohmann::json Verification::to_json() const {
  auto list = nlohmann::json::array();
  for (const auto& group : groups)
    list.push_back({{"group", group.group},
                    {"error", std::isfinite(group.error) ? nlohmann::json(group.error) : nullptr},
                    {"limit", group.limit},
                    {"worst", group.worst},
                    {"passed", group.passed()}});
  return {{"kind", kind},
          {"connection", connection},
          {"parameters", parameters},
          {"groups", list},
          {"passed", passed()}};
}

Verification verify_vectors(Dump& dump, const std::string& kind) {
  const auto& file_name = dump.name();
  const auto connection = connection_of_kind(kind);
  DumpConfig config;
  const auto json = parse_json(dump.metadata("config"), file_name);
  config.fields().read(json, file_name);
  for (const auto* key : {"B", "T", "d", "n_layer", "n_head", "n_embd"})
    require(json.contains(key), file_name, "config has no '{}'", key);

  const auto positions = dump.read("param/pos_emb");
  require(positions.dim() == 3, file_name, "tensor 'param/pos_emb' has {} axes, expected 3",
          positions.dim());
  require(config.length <= positions.size(1), file_name, "T = {} is longer than the {} positions",
          config.length, positions.size(1));
  Transformer model({.connection = connection,
                     .layers = config.layers,
                     .width = config.width,
                     .heads = config.heads,
                     .streams = config.streams,
                     .context = positions.size(1),
                     .input_width = config.input_width,
                     .options = connection_options(connection, config)});
  model.to(torch::kFloat64);
  const auto parameters = dumped_parameters(model);
  load_parameters(dump, parameters);
  Verification result{
      .kind = kind, .connection = connection, .parameters = parameter_count(model), .groups = {}};

  // Forward, and backward of sum(out · cotangent) + aux.
  const std::vector<int64_t> shape = {config.batch, config.length, config.input_width};
  const auto x = dump.read("x", shape), y = dump.read("y", shape);
  TrainingStep training(model, {});
  Trace trace;
  const auto out = model.forward(x, trace);
  const auto aux = loss_or_zero(trace, out);
  ((out * dump.read("cotangent", shape)).sum() + aux).backward();
  result.groups = {compare_tensor(dump, "out", out.detach()),
                   compare_tensor(dump, "mse", torch::mse_loss(out, y).detach().view({1})),
                   compare_tensor(dump, "aux", aux.detach().view({1})),
                   compare_parameters(dump, parameters, "grad", kLimit,
                                      [](const Tensor& parameter) { return parameter.grad(); })};
  verify_training(dump, training, parameters, "mse", shape, Dtype::f64, result);
  return result;
}

Verification verify_dump(const Safetensors& file, const std::string& file_name) {
  Dump dump(file, file_name);
  const auto kind = dump.metadata("kind");
  if (is_recursive_kind(kind)) return verify_recursive(dump);
  const auto result = kind.starts_with("lm_")                 ? verify_language(dump, kind)
                      : kind == "mhc_v4" || kind == "mhc_v41" ? verify_v4(dump, kind)
                                                              : verify_vectors(dump, kind);
  dump.require_all_read();
  return result;
}

}  // namespace geores
