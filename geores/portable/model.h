// A trained transformer's forward pass on plain arrays: one thread, no LibTorch, no files, and
// nothing is allocated after the start.
//   Model model(weights, JsonDocument(config_text, "config.json").root());
//   model.forward(x, 0, length, y);        positions 0 … length − 1 at once
//   model.forward(x + 16 * t, t, t + 1, y) one more, with keys, values and running means kept
// Weights and configuration are those of a run's best.safetensors and config.json; the same names
// as in geores/model. Vectors in and out; a token model is refused.
#pragma once

#include "geores/portable/connection.h"

namespace geores::portable {

class Model {
 public:
  // Keeps neither.
  Model(const Weights& weights, const Json& config);

  // x, y (to − from, input_width). Positions come in order; from = 0 begins a new sequence. A model
  // that is not causal sees a whole sequence at once: from must be 0 then.
  void forward(const double* x, int from, int to, double* y);

  int layers() const { return layers_; }
  int width() const { return width_; }
  int streams() const { return streams_; }
  int input_width() const { return input_.columns; }
  int context() const { return context_; }
  bool causal() const { return traits_.causal; }

  // Operators in the order in which a state meets them, two a block, at a position of the last
  // pass.
  int operators() const { return 2 * layers(); }
  Probe probe(int op, int position) const;

 private:
  // A connection and the sublayer that it wraps.
  struct Half {
    Connection* connection;
    Sublayer* sublayer;
  };

  // The sublayer's first and last weights with the maps around them multiplied in.
  struct Ends {
    Linear first, last;
  };
  Ends folded(const ConnectionSource& source, Ends ends, const Name& maps,
              const Connection& connection);
  void pass(Half& half, int from, int to);

  Arena arena_;
  int layers_ = 0, width_ = 0, streams_ = 0, context_ = 0;
  Traits traits_;
  Linear input_, output_;
  LayerNorm final_norm_;
  const double* positions_;
  Half* halves_;  // two a block: attention, MLP
  double *states_, *read_, *answer_, *embedded_;
};

}  // namespace geores::portable
