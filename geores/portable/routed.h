// Connections that mix, read and write a token's streams X (n, d) by numbers made anew for each
// token, at inference:
//   X ← R X + write ⊗ F(LN(Σ_j read_j X_j))
// The formulas are in the headers of geores/residual/.
#pragma once

#include "geores/portable/connection.h"
#include "geores/portable/streams.h"

namespace geores::portable {

struct Routes {
  Square mix;  // R
  Row read, write;
};

class Routed : public Connection {
 public:
  void read(int position, double* state, double* input) final;
  void write(int position, const double* output, double* state) final;

 protected:
  ~Routed() = default;
  // With `tiled` the sublayer sees the stream that was read n times side by side, and stream i gets
  // the i-th part of its output. Otherwise it works at the width of a stream, and every stream gets
  // its output.
  Routed(const ConnectionSource& source, int stream_width, bool tiled);

  // May change the state, where an operator comes before the routes.
  virtual void route(int position, double* state, Routes& routes) = 0;

  const int streams_, stream_width_;
  double rms_epsilon_ = -1;  // not negative: an RMSNorm with this ε reads, not a LayerNorm

 private:
  const bool tiled_;
  LayerNorm norm_;
  Routes routes_{};
  double* collected_;  // a state
};

}  // namespace geores::portable
