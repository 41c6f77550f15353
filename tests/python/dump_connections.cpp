// Results of every connection in C++, for tests/python/test_residual.py: a safetensors file with the state,
// the input, the output and all gradients of each variant, in float64.
//   dump_connections FILE
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/residual/registry.h"
#include "geores/storage/state_file.h"

namespace geores {
namespace {

constexpr int64_t kWidth = 8, kStreams = 4;

void dump(SafetensorsWriter& writer, const Connection& connection, const nlohmann::json& options,
          int64_t length, const std::string& prefix) {
  const auto residual =
      connection.make({.width = kWidth, .streams = kStreams, .index = 1, .options = options});
  residual->to(torch::kFloat64);
  {
    // At the start many parameters are zero and have no gradient.
    const torch::NoGradGuard no_gradients;
    for (auto& parameter : residual->parameters())
      parameter.add_(torch::randn_like(parameter), 0.2);
  }
  const auto& traits = residual->traits();
  auto x = traits.layout == StreamLayout::expand
               ? torch::randn({2, length, kStreams, kWidth}, torch::kFloat64)
               : torch::randn({2, length, kWidth}, torch::kFloat64);
  x.requires_grad_(true);
  const auto map = torch::randn({traits.sublayer_width, traits.sublayer_width}, torch::kFloat64)
                       .requires_grad_(true);
  Trace trace;
  const auto out = residual->forward(
      x, [&](const Tensor& u) { return torch::tanh(u.matmul(map)); }, trace);
  const auto cotangent = torch::randn_like(out);
  auto loss = (out * cotangent).sum();
  if (trace.loss().defined()) loss = loss + trace.loss();
  loss.backward();

  const auto add = [&](const std::string& name, const Tensor& tensor) {
    add_tensor(writer, prefix + name, tensor.detach().contiguous());
  };
  add("x", x);
  add("map", map);
  add("cotangent", cotangent);
  add("out", out);
  add("loss", loss);
  add("grad/x", x.grad());
  add("grad/map", map.grad());
  for (const auto& item : residual->named_parameters()) {
    add("state/" + item.key(), item.value());
    const auto& gradient = item.value().grad();
    add("grad/" + item.key(), gradient.defined() ? gradient : torch::zeros_like(item.value()));
  }
  for (const auto& item : residual->named_buffers()) add("state/" + item.key(), item.value());
}

void dump_all(const char* path) {
  torch::manual_seed(1);
  SafetensorsWriter writer;
  auto cases = nlohmann::json::array();
  for (const auto& connection : connections())
    for (const auto& options : connection.variants)
      for (const int64_t length : {1, 5}) {
        dump(writer, connection, options, length, std::to_string(cases.size()) + "/");
        cases.push_back({{"name", connection.name},
                         {"options", options.is_null() ? nlohmann::json::object() : options},
                         {"length", length}});
      }
  writer.metadata("cases", cases.dump());
  writer.save(path);
}

}  // namespace
}  // namespace geores

int main(int count, char** arguments) {
  try {
    if (count == 2) return geores::dump_all(arguments[1]), 0;
    std::fprintf(stderr, "usage: dump_connections FILE\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
