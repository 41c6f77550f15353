#include "lab/reference/import.h"

#include <fmt/ranges.h>

#include <optional>
#include <set>

#include "geores/base/error.h"
#include "geores/model/transformer/transformer.h"
#include "geores/storage/state_file.h"
#include "lab/reference/public_names.h"

namespace geores {
namespace {

// Tensors of a file under one of a few prefixes.
class PublicFile {
 public:
  PublicFile(const Safetensors& file, const std::string& where) : file_(file), where_(where) {}

  std::optional<Tensor> find(const std::string& name) const {
    for (const auto* prefix : {"", "param/", "_orig_mod.", "model."})
      if (file_.contains(prefix + name)) return to_tensor(file_.at(prefix + name));
    return std::nullopt;
  }

  Tensor read(const std::string& name) const {
    const auto found = find(name);
    require(found.has_value(), where_, "tensor '{}' is missing", name);
    return *found;
  }

  const std::string& where() const { return where_; }

 private:
  const Safetensors& file_;
  std::string where_;
};

void add_imported(ImportedWeights& result, const std::string& name, const Tensor& value) {
  // A copy: values are read when the file is written, and a view would keep the whole public tensor.
  add_tensor(result.weights, name, value.clone());
  ++result.tensors;
}

int64_t count_layers(const PublicFile& file, const std::function<std::string(int64_t)>& name) {
  int64_t layers = 0;
  while (file.find(name(layers))) ++layers;
  require(layers > 0, file.where(), "tensor '{}' is missing", name(0));
  return layers;
}

// The gain belongs to the values that a projection reads, the last axis of our weights.
Tensor with_gain(const PublicFile& file, const PublicTensor& source, const std::string& ours,
                 const Tensor& value) {
  const auto end = source.tensor.rfind('.');
  const auto gain = file.find(source.tensor.substr(0, end) + ".norm.gamma");
  if (!gain || !ours.ends_with(".weight") || source.tensor.find(".hc_") == std::string::npos)
    return value;
  require(gain->numel() == value.size(-1), file.where(),
          "the gain of '{}' has {} values, expected {}", source.tensor, gain->numel(),
          value.size(-1));
  return value * (1 + *gain);
}

ImportedWeights import_language(const PublicFile& file, const std::string& kind) {
  const auto connection = connection_of_language_kind(kind);
  const auto embedding = file.read("transformer.wte.weight");
  require(embedding.dim() == 2, file.where(), "the embedding has {} axes, expected 2",
          embedding.dim());
  const bool plain = kind == "lm_gpt";
  const auto layers = count_layers(file, [&](int64_t i) {
    return fmt::format("transformer.h.{}.{}", i, plain ? "ln_1.weight" : "branch_attn.0.weight");
  });
  const auto streams = plain ? 1 : file.read("transformer.h.0.hc_attn.static_beta").numel();
  TransformerConfig config{.connection = connection,
                           .input = "tokens",
                           .layers = layers,
                           .width = embedding.size(1),
                           .heads = 1,
                           .streams = streams,
                           .context = file.read("transformer.wpe.weight").size(0),
                           .vocabulary = embedding.size(0)};
  if (kind == "lm_mhc")
    config.options = {{"sinkhorn_order", "columns_last"}, {"sinkhorn_gradient", "unrolled"}};
  const Transformer model(config);
  ImportedWeights result;
  for (const auto& item : model.named_parameters()) {
    const auto source = public_tensor(kind, item.key(), streams);
    const auto value = with_gain(file, source, item.key(), source.part(file.read(source.tensor)));
    require(value.sizes() == item.value().sizes(), file.where(),
            "tensor '{}' gives {} of shape [{}], expected [{}]", source.tensor, item.key(),
            fmt::join(value.sizes(), ", "), fmt::join(item.value().sizes(), ", "));
    add_imported(result, item.key(), value);
  }
  for (const auto& item : model.named_buffers()) add_imported(result, item.key(), item.value());
  result.options = {{"connection", connection},  {"layers", layers},
                    {"width", config.width},     {"streams", streams},
                    {"context", config.context}, {"vocabulary", config.vocabulary}};
  if (!config.options.is_null()) result.options.update(config.options);
  return result;
}

// `late`: V4.1, which has no head.
ImportedWeights import_v4(const PublicFile& file, bool late) {
  // Of DeepSeek's own checkpoints, and of transformers'.
  const auto dashed = file.find("layers.0.hc_attn_fn").has_value();
  const auto name = [&](int64_t layer, const char* half, const std::string& part) {
    return dashed ? fmt::format("layers.{}.hc_{}_{}", layer, half, part)
                  : fmt::format("layers.{}.{}_hc.{}", layer, half, part);
  };
  const auto layers = count_layers(file, [&](int64_t i) { return name(i, "attn", "fn"); });
  const auto fn = file.read(name(0, "attn", "fn"));
  require(fn.dim() == 2, file.where(), "'{}' has {} axes, expected 2", name(0, "attn", "fn"),
          fn.dim());
  int64_t n = 1;
  while (n * (n + 2) < fn.size(0)) ++n;
  require(n * (n + 2) == fn.size(0) && fn.size(1) % n == 0, file.where(),
          "'{}' of shape [{}] is not (2n + n²) × nC", name(0, "attn", "fn"),
          fmt::join(fn.sizes(), ", "));
  ImportedWeights result;
  for (int64_t layer = 0; layer < layers; ++layer)
    for (const auto& [half, ours] :
         {std::pair("attn", "attention_residual"), std::pair("ffn", "mlp_residual")})
      for (const auto* route : {"pre", "post", "res"})
        for (const auto* part : {"weight", "bias", "scale"}) {
          const auto parameter = fmt::format("{}.{}", route, part);
          const auto source = v4_tensor(parameter, n);
          const auto from = file.read(name(layer, half, source.tensor));
          const auto wanted = std::string(part) == "scale" ? 3 : n * (n + 2);
          require(from.size(0) == wanted, file.where(), "'{}' has {} rows, expected {}",
                  name(layer, half, source.tensor), from.size(0), wanted);
          add_imported(result, fmt::format("blocks.{}.{}.{}", layer, ours, parameter),
                       source.part(from));
        }
  result.options = {{"connection", "mhc"},
                    {"form", late ? "v41" : "v4"},
                    {"layers", layers},
                    {"streams", n},
                    {"width", fn.size(1) / n}};
  if (late) return result;
  result.options["head"] = "learned";
  for (const auto* part : {"weight", "bias", "scale"}) {
    const auto parameter = fmt::format("weights.{}", part);
    const auto theirs = v4_head_tensor(parameter).tensor;  // hc_fn, ...
    const auto tensor = dashed ? "hc_head_" + theirs.substr(3) : "hc_head." + theirs;
    if (const auto found = file.find(tensor)) add_imported(result, "head." + parameter, *found);
  }
  return result;
}

}  // namespace

ImportedWeights import_weights(const Safetensors& file, const std::string& kind,
                               const std::string& where) {
  const PublicFile names(file, where);
  if (kind == "v4" || kind == "v41") return import_v4(names, kind == "v41");
  return import_language(names, kind);
}

}  // namespace geores
