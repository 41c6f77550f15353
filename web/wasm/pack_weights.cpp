// Makes the weights of the page from a run:
//   pack_weights RUN OUT.safetensors NOTE
// Every matrix becomes 8-bit rows with one half-precision scale each (value = scale · integer, the
// largest of a row is ±127), vectors become half precision; portable/weights.h describes their layout in the
// file. EΔ's maps H_pre and H_post are folded into the weights of the sublayers first. The metadata
// hold the configuration, NOTE (how the run was made) and the mean squared error of the packed model
// on sequences of gyroscope.h, which tests/page_models_test.cpp computes again.
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
  for (int i = 0; i < weights.size(); ++i) {
    const auto name = weights.name(i);
    const auto& shape = weights.shape(name);
    Tensor tensor{{shape.at, shape.at + shape.axes}, std::vector<double>(shape.count())};
    weights.read(name, shape, tensor.values.data());
    all[std::string(name)] = tensor;
  }
  return all;
}

// a ← a · b
void multiply(Tensor& a, const Tensor& b) {
  const auto rows = a.shape[0], inner = a.shape[1], columns = b.shape[1];
  std::vector<double> product(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < inner; ++k)
      for (std::int64_t j = 0; j < columns; ++j)
        product[i * columns + j] += a.values[i * inner + k] * b.values[k * columns + j];
  a = {{rows, columns}, product};
}

// first · pre and post · last, in place; pre and post go.
void fold(Tensors& all, const std::string& residual, const std::string& first,
          const std::string& last) {
  multiply(all.at(first + ".weight"), all.at(residual + ".pre.weight"));
  auto& post = all.at(residual + ".post.weight");
  multiply(post, all.at(last + ".weight"));
  all[last + ".weight"] = post;
  all.erase(residual + ".pre.weight");
  all.erase(residual + ".post.weight");
}

// The nearest number with eleven bits, and its bits.
struct Half {
  std::uint16_t bits;
  double value;
};
Half half(double value) {
  const double size = std::abs(value);
  const int exponent = size == 0 ? -14 : std::max(-14, std::ilogb(size));
  const auto fraction = static_cast<int>(std::lround(std::ldexp(size, 10 - exponent)));
  require(fraction <= 2048 && exponent <= 15, "pack_weights", "{} is too large for 16 bits", value);
  const double rounded = std::ldexp(fraction, exponent - 10);
  // A fraction of 2048 carries into the exponent; one below 1024 is a subnormal number.
  const int bits = fraction < 1024 ? fraction : ((exponent + 15) << 10) + fraction - 1024;
  return {static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0)),
          std::copysign(rounded, value)};
}

// The three tensors of a packed file, and the list of their contents.
struct Packed {
  std::vector<std::int8_t> values;
  std::vector<std::uint16_t> scales, vectors;
  std::string list;

  void add(const std::string& name, const Tensor& tensor) {
    list += name;
    for (const auto extent : tensor.shape) list += " " + std::to_string(extent);
    list += ";";
    if (tensor.shape.size() != 2) {
      for (const double value : tensor.values) vectors.push_back(half(value).bits);
      return;
    }
    const auto columns = static_cast<std::size_t>(tensor.shape[1]);
    for (std::size_t row = 0; row < tensor.values.size(); row += columns) {
      double largest = 0;
      for (std::size_t j = 0; j < columns; ++j)
        largest = std::max(largest, std::abs(tensor.values[row + j]));
      const auto scale = half(largest / 127);
      scales.push_back(scale.bits);
      for (std::size_t j = 0; j < columns; ++j)
        values.push_back(static_cast<std::int8_t>(
            scale.value == 0
                ? 0
                : std::clamp(std::lround(tensor.values[row + j] / scale.value), -127l, 127l)));
    }
  }

  void write(SafetensorsWriter& writer) const {
    const auto add_to = [&](const char* name, Dtype type, const auto& all) {
      writer.add(name, type, {static_cast<std::int64_t>(all.size())},
                 std::as_bytes(std::span(all)));
    };
    add_to("values", Dtype::i8, values);
    add_to("scales", Dtype::f16, scales);
    add_to("vectors", Dtype::f16, vectors);
    writer.metadata("tensors", list);
  }
};

double error_of(const std::vector<std::byte>& file, const std::string& config) {
  portable::Model model(portable::Weights(file, "packed"),
                        portable::JsonDocument(config, "config").root());
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
  const auto file = (run / "best.safetensors").string();
  const portable::Weights weights(bytes, file.c_str());
  auto all = read_all(weights);
  SafetensorsWriter writer;
  const bool folded = weights.metadata("folded") == "true";
  if (folded) writer.metadata("folded", "true");
  if (connection == "edelta" && !folded) {
    for (int i = 0; i < config["layers"].get<int>(); ++i) {
      const auto block = "blocks." + std::to_string(i) + ".";
      fold(all, block + "attention_residual", block + "attention.qkv", block + "attention.out");
      fold(all, block + "mlp_residual", block + "mlp.up", block + "mlp.down");
    }
    writer.metadata("folded", "true");
  }
  Packed packed;
  for (const auto& [name, tensor] : all) packed.add(name, tensor);
  packed.write(writer);
  writer.metadata("config", kept.dump());
  writer.metadata("made_by", note);
  const double before = error_of(bytes, kept.dump());
  const double after = error_of(writer.serialize(), kept.dump());
  writer.metadata("mse", fmt::format("{:.6e}", after));
  writer.save(out);
  std::cout << fmt::format("{}: {} bytes, mse {:.4e} as trained, {:.4e} packed\n", out,
                           std::filesystem::file_size(out), before, after);
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
