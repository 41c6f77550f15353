#include "geores/model/sublayers/sublayers.h"

#include "geores/base/error.h"

namespace geores {

Fields SublayerOptions::fields() {
  return Fields()
      .choice("attention", attention, {"causal", "full"}, "full: every position sees every other")
      .choice("positions", positions, {"learned", "rotary"},
              "learned: added to the embedding; rotary: queries and keys are turned by them")
      .choice("mlp", mlp, {"gelu", "swiglu"}, "the position-wise sublayer");
}

std::shared_ptr<Attention> make_attention(const SublayerOptions& options, int64_t width,
                                          int64_t heads, double out_std) {
  return std::make_shared<Attention>(AttentionConfig{.width = width,
                                                     .heads = heads,
                                                     .out_std = out_std,
                                                     .causal = options.causal(),
                                                     .rotary = options.rotary()});
}

std::shared_ptr<Mlp> make_mlp(const SublayerOptions& options, int64_t width, double out_std) {
  if (options.mlp == "gelu") return std::make_shared<GeluMlp>(width, out_std);
  require(options.mlp == "swiglu", "mlp", "must be gelu or swiglu, got '{}'", options.mlp);
  constexpr int64_t multiple = 8;
  const auto hidden = (8 * width + 3 * multiple - 1) / (3 * multiple) * multiple;
  return std::make_shared<SwiGluMlp>(width, hidden, out_std);
}

}  // namespace geores
