#include "geores/model/sublayers/sublayers.h"

#include "geores/base/error.h"

namespace geores {

Fields SublayerOptions::fields() {
  return Fields()
      .choice("attention", attention, {"causal", "full"}, "full: every position sees every other")
      .choice("positions", positions, {"learned", "rotary"},
              "learned: added to the embedding; rotary: queries and keys are turned by them")
      .choice("mlp", mlp, {"gelu", "swiglu"}, "the position-wise sublayer")
      .choice("maps", maps, {"none", "normal", "identity", "fixed"},
              "linear maps before and after each sublayer, in any connection, and how they start; "
              "fixed: not trained")
      .choice("maps_side", maps_side, {"both", "before", "after"},
              "which of the two maps there are")
      .add("maps_std", maps_std, "standard deviation of the entries with maps = normal", {.min = 0})
      .add("maps_factor", maps_factor, "factor on the identity with maps = identity or fixed",
           {.min = 0})
      .add("first_start", first_start,
           "factor on the initial weights that each sublayer begins with", {.min = 0})
      .add("last_start", last_start, "factor on the initial weights that each sublayer ends with",
           {.min = 0})
      .add("branch_width", branch_width,
           "width of the sublayers between maps = normal; 0: as the connection asks", {.min = 0});
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
