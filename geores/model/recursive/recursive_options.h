// The options of the recursive model, and the sizes derived from them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/base/config.h"
#include "geores/residual/residual.h"

namespace geores {

struct RecursiveOptions {
  std::string mixer = "none";
  std::string layout = "split";
  int64_t width = 512;
  int64_t streams = 4;
  int64_t heads = 8;
  int64_t layers = 2;
  double expansion = 4;
  int64_t mlp_multiple = 256;
  int64_t mlp_hidden = 0;
  bool mlp_t = false;
  std::string positions = "rotary";
  double rope_theta = 10000;
  double norm_eps = 1e-5;

  int64_t prefix = 16;
  int64_t table_width = 0;
  int64_t identifiers = 1;

  int64_t h_cycles = 3, l_cycles = 6;
  int64_t act_steps = 16;
  double explore = 0.1;
  bool train_continue = false;

  double cayley_alpha = 0.1;
  int64_t cayley_iterations = 2;
  int64_t sinkhorn_iterations = 20;
  std::string sinkhorn_gradient = "implicit";
  int64_t hidden = 48;
  std::string reflection = "streams";
  std::string mixer_start = "alive";
  double gate_weight = 0.1;
  std::string gate_scale = "batch";

  Fields fields();
  void check() const;  // checks options that exclude each other

  bool mixes() const { return mixer != "none"; }
  bool expands() const { return mixes() && layout == "expand"; }

  // Number of values of a position: D, or n·d if the streams are n copies of the width.
  int64_t state_width() const { return expands() ? streams * width : width; }
  // Width at which attention and MLP work.
  int64_t sublayer_width() const { return mixes() && !expands() ? width / streams : width; }
  int64_t head_width() const { return width / heads; }
  int64_t sublayer_heads() const;
  int64_t table_values() const { return table_width > 0 ? table_width : width; }
  // Number of positions before the first cell; the option 0 means as many as a table row fills.
  int64_t prefix_positions() const;
  // The hidden width of a SwiGLU at this width: round(⅔ · expansion · w), up to a multiple.
  int64_t swiglu_hidden(int64_t at_width) const;
};

// The mixer around one sublayer; null for none.
std::shared_ptr<Residual> make_mixer(const RecursiveOptions& options, int64_t index);

// The width m of the MLP at which a model with these options has about as many parameters in its
// layers as one without a mixer and with mlp_hidden = m₀: m₀ − extra/(3·d·layers), to a multiple of
// 8, where extra is what the mixers add.
int64_t matched_mlp_hidden(const RecursiveOptions& options, int64_t plain_hidden);

}  // namespace geores
