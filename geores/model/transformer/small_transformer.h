// A small model for tests: float64, with fixed weights.
#pragma once

#include <memory>
#include <string>

#include "geores/model/transformer/transformer.h"

namespace geores {

inline constexpr int64_t kSmallWidth = 24;

inline TransformerConfig small_transformer(const std::string& connection = "additive") {
  return {.connection = connection,
          .layers = 2,
          .width = kSmallWidth,
          .heads = 2,
          .streams = 4,
          .context = 9,
          .input_width = 5,
          .allow_noncausal = true};
}

inline std::shared_ptr<Transformer> model_of(const TransformerConfig& config) {
  torch::manual_seed(3);
  auto model = std::make_shared<Transformer>(config);
  model->to(torch::kFloat64);
  return model;
}

inline Tensor example() {
  torch::manual_seed(4);
  return torch::randn({2, 7, 5}, torch::kFloat64);
}

inline Tensor outputs_of(Transformer& model, const Tensor& x) {
  Trace trace;
  return model.forward(x, trace);
}

inline double largest(const Tensor& x) { return x.abs().max().item<double>(); }

}  // namespace geores
