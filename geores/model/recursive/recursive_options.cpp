#include "geores/model/recursive/recursive_options.h"

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"
#include "geores/residual/registry.h"

namespace geores {
namespace {

int64_t up_to_multiple(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct MixerChoice {
  std::string connection;
  nlohmann::json options;
};

// EΔ's code splits the state into streams, uses norms without weights and reflects the whole
// vector; JPmHC's paper carries n streams of the full width and has weights in its norm.
MixerChoice mixer_choice(const RecursiveOptions& options) {
  if (options.mixer == "shc") return {"shc", {{"read_norm", "none"}}};
  if (options.mixer == "edelta")
    return {"edelta_stream",
            {{"pool", "token"},
             {"hidden", options.hidden},
             {"gate_weight", options.gate_weight},
             {"gate_bias", options.mixer_start == "alive" ? 1.5 : 0.0},
             {"generator_norm", "rms"},
             {"read_norm", "none"},
             {"reflection", options.reflection},
             {"start", options.mixer_start == "alive"       ? "spread"
                       : options.mixer_start == "reference" ? "zero"
                                                            : "identity"}}};
  return {"jpmhc",
          {{"mixer", options.mixer},
           {"cayley_alpha", options.cayley_alpha},
           {"cayley_iterations", options.cayley_iterations},
           {"sinkhorn_iterations", options.sinkhorn_iterations},
           {"sinkhorn_gradient", options.sinkhorn_gradient},
           {"bias", !options.expands()},
           {"generator_norm", options.expands() ? "affine" : "rms"},
           {"init_std", options.expands() ? 0.02 : 0.0},
           {"read_norm", "none"}}};
}

}  // namespace

Fields RecursiveOptions::fields() {
  return Fields()
      .choice("mixer", mixer,
              {"none", "cayley", "cayley_exact", "sinkhorn", "grassmann", "permutation", "identity",
               "sinkhorn_softmax", "edelta", "shc"},
              "replaces the plain residual of a layer")
      .choice("layout", layout, {"split", "expand"},
              "streams of a mixer: the width cut into n, or n times the width")
      .add("width", width, "of the state, or of one stream for layout expand", {.min = 1})
      .add("streams", streams, "of a mixer", {.min = 1})
      .add("heads", heads, "of attention at the full width", {.min = 1})
      .add("layers", layers, "of the one network that is applied again and again", {.min = 1})
      .add("expansion", expansion, "hidden width of the MLP over ⅔ of its width", {.min = 1e-3})
      .add("mlp_multiple", mlp_multiple, "the hidden width is a multiple of this", {.min = 1})
      .add("mlp_hidden", mlp_hidden, "the hidden width itself; 0: from expansion", {.min = 0})
      .add("mlp_t", mlp_t, "an MLP over the positions instead of attention")
      .choice("positions", positions, {"rotary", "learned", "none"},
              "encoding of positions in attention")
      .add("rope_theta", rope_theta, "base of the rotary frequencies", {.min = 1})
      .add("norm_eps", norm_eps, "ε of the norm after each sublayer", {.min = 0})
      .add("prefix", prefix, "positions before the cells; 0: as many as a table row fills",
           {.min = 0})
      .add("table_width", table_width, "values of a puzzle's row in the table; 0: the width",
           {.min = 0})
      .add("identifiers", identifiers, "rows of the puzzle table; data sets set it", {.min = 1})
      .add("h_cycles", h_cycles, "cycles of a pass; the last one has gradients", {.min = 1})
      .add("l_cycles", l_cycles, "updates of the scratch state in a cycle", {.min = 1})
      .add("act_steps", act_steps, "most passes over a puzzle", {.min = 1})
      .add("explore", explore, "share of rows that may not halt before a random step",
           {.min = 0, .max = 1})
      .add("train_continue", train_continue, "train q_continue as HRM does, and halt by both")
      .add("cayley_alpha", cayley_alpha, "α of the Cayley mixers")
      .add("cayley_iterations", cayley_iterations, "s of the iterative Cayley mixer", {.min = 0})
      .add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations", {.min = 1})
      .choice("sinkhorn_gradient", sinkhorn_gradient, {"implicit", "unrolled", "gauss_seidel"},
              "of mixers sinkhorn and sinkhorn_softmax; gauss_seidel: JPmHC's sixteen sweeps")
      .add("hidden", hidden, "hidden width of the generators of mixer edelta", {.min = 1})
      .choice("reflection", reflection, {"streams", "whole"},
              "of mixer edelta: k mirrors the streams, or all values of a position")
      .choice("mixer_start", mixer_start, {"alive", "reference", "identity"},
              "of mixer edelta; reference: generators zero, which never move; identity: a control "
              "that never mixes")
      .add("gate_weight", gate_weight, "weight of the gate loss of mixer edelta", {.min = 0})
      .choice("gate_scale", gate_scale, {"batch", "reference"},
              "gate loss: mean over calls, or of the last call divided by the batch");
}

void RecursiveOptions::check() const {
  require(width % heads == 0, "recursive", "width {} is not divisible by {} heads", width, heads);
  require(!mixes() || layout == "expand" || width % streams == 0, "recursive",
          "width {} is not divisible by {} streams", width, streams);
  require(!mlp_t || !mixes(), "recursive", "mlp_t has no mixer; got mixer {}", mixer);
  require(mixer != "shc" || layout == "expand", "recursive", "mixer shc needs layout expand");
  require(positions != "rotary" || mlp_t || head_width() % 2 == 0, "recursive",
          "rotary positions need heads of an even width, got {}", head_width());
  require(prefix_positions() * width >= table_values(), "recursive",
          "a table row of {} values does not fit {} prefix positions of {}", table_values(),
          prefix_positions(), width);
}

int64_t RecursiveOptions::sublayer_heads() const {
  return std::max<int64_t>(1, sublayer_width() / head_width());
}

int64_t RecursiveOptions::prefix_positions() const {
  return prefix > 0 ? prefix : (table_values() + width - 1) / width;
}

int64_t RecursiveOptions::swiglu_hidden(int64_t at_width) const {
  const auto wanted = std::llround(expansion * static_cast<double>(at_width) * 2 / 3);
  return up_to_multiple(std::max<int64_t>(wanted, 1), mlp_multiple);
}

std::shared_ptr<Residual> make_mixer(const RecursiveOptions& options, int64_t index) {
  if (!options.mixes()) return nullptr;
  const auto [connection, own] = mixer_choice(options);
  // sHC's width is that of one stream, the others' that of the whole state.
  const auto width = connection == "shc" ? options.width : options.state_width();
  return make_residual(
      connection, {.width = width, .streams = options.streams, .index = index, .options = own});
}

int64_t matched_mlp_hidden(const RecursiveOptions& options, int64_t plain_hidden) {
  const auto mixer = make_mixer(options, 0);
  if (!mixer) return plain_hidden;
  int64_t extra = 0;
  for (const auto& parameter : mixer->parameters()) extra += parameter.numel();
  const auto each =
      2.0 * static_cast<double>(extra) / (3.0 * static_cast<double>(options.sublayer_width()));
  const auto hidden = std::llround((static_cast<double>(plain_hidden) - each) / 8) * 8;
  require(hidden >= 8, "recursive", "mixer {} alone is larger than {} hidden values of the MLP",
          options.mixer, plain_hidden);
  return hidden;
}

}  // namespace geores
