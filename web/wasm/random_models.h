// A small model with random weights for every connection and every form of it that the page can run,
// to compare WebAssembly with the native build where no golden file does.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/error.h"
#include "geores/base/formats/safetensors.h"
#include "geores/manifold/algebra/random.h"

namespace geores::web {

struct RandomModel {
  std::string name;
  nlohmann::json config;
  std::vector<std::byte> weights;
};

namespace random_models {

// n streams, the width D, that of a stream d, the hidden width h of perceptrons. A connection's tensors
// are a list of "NAME ROWS COLUMNS": sums of products of these letters and numbers. "NAME@OUT" is a
// perceptron from D to OUT.
inline constexpr int n = 4, D = 16, d = D / n, h = 6, kInput = 5, kContext = 9;

struct Case {
  const char *connection, *options, *tensors;
  int sublayer = D;
};

inline const std::vector<Case>& cases() {
  static const std::string around =
      "norm.weight D; pre.weight n n*D; pre.bias n; pre.scale 1; post.weight n n*D; post.bias n; "
      "post.scale 1; ";
  static const std::string jpmhc =
      "norm.weight d; mixer.pre.weight n D; mixer.pre.bias n; mixer.post.weight n D; "
      "mixer.post.bias "
      "n; ";
  static const std::string mixed = around + "res.weight n*n n*D; res.bias n*n; res.scale 1";
  static const std::string sphere =
      around +
      "singular.weight 3 n*D; singular.bias 3; left.weight 3 n*D; left.bias 3; right.weight 3 n*D; "
      "right.bias 3; left_amplitude 1; right_amplitude 1";
  static const std::string permuted =
      around + "res.weight 24 n*D; res.bias 24; permutations 24 n*n";
  static const std::string split =
      "norm.weight D; rms_weight D; pre.weight n D; pre.bias n; post.weight n D; post.bias n; "
      "res.weight n*n D; res.bias n*n";
  static const std::string cayley =
      "norm.weight d; mixer.norm.weight D; mixer.norm.bias D; mixer.fused.weight 3*n*n D; "
      "mixer.fused.bias 3*n*n";
  static const std::string jpmhc_square = jpmhc + "mixer.res.weight n*n D; mixer.res.bias n*n";
  static const std::string jpmhc_half = jpmhc + "mixer.res.weight n*2 D; mixer.res.bias n*2";
  static const std::string jpmhc_permuted =
      jpmhc + "mixer.res.weight 24 D; mixer.res.bias 24; mixer.permutations 24 n*n";
  static const std::vector<Case> all = {
      {"additive", R"({"norm":"post"})", "norm.weight D"},
      {"additive", R"({"maps":"normal"})", "norm.weight D"},
      {"ddl", "{}",
       "norm.weight D; read n; beta.weight 1 D; beta.bias 1; value.weight n D; value.bias n"},
      {"ddl_pooled", R"({"pool":"token"})", "norm.weight D; k@D; beta@1"},
      {"edelta", R"({"pool":"causal"})",
       "norm.weight D; u@n; v@n; beta@1; k@n; gate.weight 1 D; gate.bias 1; pre.weight D D; "
       "post.weight D D"},
      {"edelta_stream", R"({"pool":"causal"})",
       "norm.weight d; generator_norm.weight D; generator_norm.bias D; router_norm.weight D; "
       "router_norm.bias D; generator@3*n+2; router.weight 2*n*n D; router.bias 2*n*n",
       d},
      {"hc", R"({"form":"sigmoid"})", mixed.c_str()},
      {"hc", R"({"form":"original"})",
       "norm.weight D; pre.weight 1 D; pre.bias n; res.weight n D; res.bias n n; post.weight 1 D; "
       "post.bias n; scale 1; post_scale 1"},
      {"isometry", R"({"operator":"reflections","factors":2})", "norm.weight D; generators@4*n"},
      {"isometry", R"({"operator":"unitary"})", "norm.weight D; generators@n+1"},
      {"isometry", R"({"operator":"cayley","maps":"normal"})", "norm.weight D; generators@6"},
      {"jpmhc", R"({"mixer":"cayley"})", cayley.c_str(), d},
      {"jpmhc", R"({"mixer":"cayley_exact"})", cayley.c_str(), d},
      {"jpmhc", R"({"mixer":"sinkhorn"})", jpmhc_square.c_str(), d},
      {"jpmhc", R"({"mixer":"grassmann"})", jpmhc_half.c_str(), d},
      {"jpmhc", R"({"mixer":"permutation"})", jpmhc_permuted.c_str(), d},
      {"mgt", "{}",
       "norm.weight D; gate.weight D D; gate_norm.weight D; beta.weight D D; beta.bias D; alpha 1"},
      {"mhc", R"({"form":"paper"})", mixed.c_str()},
      {"mhc", R"({"form":"paper","sinkhorn_order":"rows_last","logit_bound":0})", mixed.c_str()},
      {"mhc", R"({"form":"v4"})", mixed.c_str()},
      {"mhc", R"({"mixer":"identity"})", around.c_str()},
      {"mhc_lite", "{}", permuted.c_str()},
      {"mhc_split", "{}", split.c_str()},
      {"shc", "{}", sphere.c_str()},
  };
  return all;
}

inline std::int64_t value_of(const std::string& text) {
  std::int64_t sum = 0, product = 1;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : '+';
    if (c >= '0' && c <= '9') {
      std::int64_t number = 0;
      for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
        number = 10 * number + (text[i] - '0');
      product *= number;
      --i;
    } else if (c == '+') {
      sum += product;
      product = 1;
    } else if (c != '*') {
      require(c == 'n' || c == 'D' || c == 'd' || c == 'h', "random_models", "{} is not a size",
              text);
      product *= c == 'n' ? n : c == 'D' ? D : c == 'd' ? d : h;
    }
  }
  return sum;
}

inline std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text + mark) {
    if (c != mark) {
      part += c;
    } else {
      if (!part.empty()) parts.push_back(part);
      part.clear();
    }
  }
  return parts;
}

inline RandomModel make(const Case& one, int seed) {
  manifold::SplitMix64 random(static_cast<unsigned long long>(seed));
  SafetensorsWriter writer;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    std::vector<double> values(count);
    for (double& value : values) value = 0.4 * random.normal();
    writer.add(name, Dtype::f64, shape, std::as_bytes(std::span(values)));
  };
  const auto options = nlohmann::json::parse(one.options);
  const std::int64_t w = one.sublayer;
  add("positions", {kContext, D});
  add("input.weight", {D, kInput});
  add("input.bias", {D});
  add("output.weight", {kInput, D});
  add("output.bias", {kInput});
  add("final_norm.weight", {D});
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    add(block + "attention.qkv.weight", {3 * w, w});
    add(block + "attention.out.weight", {w, w});
    add(block + "mlp.up.weight", {4 * w, w});
    add(block + "mlp.down.weight", {w, 4 * w});
    for (const std::string half : {"attention", "mlp"}) {
      const auto prefix = block + half + "_residual.";
      if (options.contains("maps")) {
        add(block + half + "_maps.pre", {w, w});
        add(block + half + "_maps.post", {w, w});
      }
      for (const auto& entry : split_at(one.tensors, ';')) {
        const auto words = split_at(entry, ' ');
        if (words.empty()) continue;
        if (const auto net = split_at(words[0], '@'); net.size() == 2) {
          add(prefix + net[0] + ".hidden.weight", {h, D});
          add(prefix + net[0] + ".hidden.bias", {h});
          add(prefix + net[0] + ".output.weight", {value_of(net[1]), h});
          add(prefix + net[0] + ".output.bias", {value_of(net[1])});
          continue;
        }
        std::vector<std::int64_t> shape;
        for (std::size_t i = 1; i < words.size(); ++i) shape.push_back(value_of(words[i]));
        add(prefix + words[0], shape);
      }
    }
  }
  nlohmann::json config = {
      {"connection", one.connection}, {"layers", 2}, {"width", D}, {"heads", 2}, {"streams", n}};
  config.update(options);
  return {std::string(one.connection) + " " + one.options, config, writer.serialize()};
}

}  // namespace random_models

}  // namespace geores::web
