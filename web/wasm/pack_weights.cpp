// Makes the weights of the page from a run:
//   pack_weights RUN OUT.safetensors NOTE
// Every matrix becomes 8-bit rows with one scale each (value = scale · integer, the largest of a row
// is ±127), vectors stay float32. EΔ's maps H_pre and H_post are folded into the weights of the
// sublayers first. The metadata hold the configuration, NOTE (how the run was made) and the mean
// squared error of the packed model on sequences of gyroscope.h, which tests/page_models_test.cpp
// computes again.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/formats/safetensors.h"
#include "geores/base/json.h"
#include "geores/portable/model.h"
#include "web/wasm/gyroscope.h"

namespace geores::web {
namespace {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};
using Tensors = std::map<std::string, Tensor>;

Tensors read_all(const portable::Weights& weights) {
  Tensors all;
  for (const auto& name : weights.names())
    all[name] = {weights.shape(name), weights.read(name, weights.shape(name))};
  return all;
}

portable::Linear linear(const Tensor& tensor) {
  return {static_cast<int>(tensor.shape[0]), static_cast<int>(tensor.shape[1]), tensor.values, {}};
}

// first · pre and post · last, in place; pre and post go.
void fold(Tensors& all, const std::string& residual, const std::string& first,
          const std::string& last) {
  auto& in = all.at(first + ".weight");
  auto& out = all.at(last + ".weight");
  in.values = linear(in).after(linear(all.at(residual + ".pre.weight"))).weight;
  out.values = linear(all.at(residual + ".post.weight")).after(linear(out)).weight;
  all.erase(residual + ".pre.weight");
  all.erase(residual + ".post.weight");
}

void add(SafetensorsWriter& writer, const std::string& name, const Tensor& tensor) {
  if (tensor.shape.size() != 2) {
    const std::vector<float> values(tensor.values.begin(), tensor.values.end());
    writer.add(name, Dtype::f32, tensor.shape, std::as_bytes(std::span(values)));
    return;
  }
  const auto rows = static_cast<std::size_t>(tensor.shape[0]);
  const auto columns = static_cast<std::size_t>(tensor.shape[1]);
  std::vector<std::int8_t> integers(rows * columns);
  std::vector<float> scales(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const double* row = tensor.values.data() + i * columns;
    double largest = 0;
    for (std::size_t j = 0; j < columns; ++j) largest = std::max(largest, std::abs(row[j]));
    scales[i] = static_cast<float>(largest > 0 ? largest / 127 : 1);
    for (std::size_t j = 0; j < columns; ++j)
      integers[i * columns + j] =
          static_cast<std::int8_t>(std::clamp(std::lround(row[j] / scales[i]), -127l, 127l));
  }
  writer.add(name, Dtype::i8, tensor.shape, std::as_bytes(std::span(integers)));
  writer.add(name + ".scale", Dtype::f32, {tensor.shape[0]}, std::as_bytes(std::span(scales)));
}

double error_of(const std::vector<std::byte>& file, const std::string& config) {
  portable::Model model(portable::Weights(file, "packed"), portable::Json::parse(config, "config"));
  return gyroscope_error(model);
}

void pack(const std::filesystem::path& run, const std::string& out, const std::string& note) {
  const auto bytes = read_file(run / "best.safetensors");
  const auto config =
      parse_json(read_text_file(run / "config.json"), (run / "config.json").string());
  const auto connection = config.contains("connection") ? config["connection"] : config["model"];
  nlohmann::json kept = {{"connection", connection}};
  for (const char* key :
       {"layers", "width", "heads", "streams", "operator", "pool", "gate", "norm"})
    if (config.contains(key)) kept[key] = config[key];
  auto all = read_all(portable::Weights(bytes, (run / "best.safetensors").string()));
  SafetensorsWriter writer;
  if (connection == "edelta") {
    for (int i = 0; i < config["layers"].get<int>(); ++i) {
      const auto block = "blocks." + std::to_string(i) + ".";
      fold(all, block + "attention_residual", block + "attention.qkv", block + "attention.out");
      fold(all, block + "mlp_residual", block + "mlp.up", block + "mlp.down");
    }
    writer.metadata("folded", "true");
  }
  for (const auto& [name, tensor] : all) add(writer, name, tensor);
  writer.metadata("config", kept.dump());
  writer.metadata("made_by", note);
  const double before = error_of(bytes, kept.dump());
  const double packed = error_of(writer.serialize(), kept.dump());
  writer.metadata("mse", fmt::format("{:.6e}", packed));
  writer.save(out);
  std::cout << fmt::format("{}: {} bytes, mse {:.4e} as trained, {:.4e} packed\n", out,
                           std::filesystem::file_size(out), before, packed);
}

}  // namespace
}  // namespace geores::web

int main(int argc, char** argv) try {
  geores::require(argc == 4, "pack_weights", "needs RUN, OUT.safetensors and NOTE");
  geores::web::pack(argv[1], argv[2], argv[3]);
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
