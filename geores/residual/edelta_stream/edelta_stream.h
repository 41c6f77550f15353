// EΔ-Stream (arXiv:2605.06729, the stream-width variant), split layout. The sublayer F works at the
// width d = D/n of one stream.
//   [u | v | β | k | γ] = Perceptron(LN(x̄))                 3n + 2 values per operator
//   g  = G x as in edelta                                   (B, T, n, d)
//   [H_pre | H_post] = Linear(LN(g flat))                   n × n each, per token;
//                      H_pre softmax over columns, H_post softmax over rows
//   x' = g + H_post (F(LN(mean_i (H_pre g)_i)) ⊗ 1)         F's output is written to every stream
// The reference draws the last perceptron layer from N(0, 0.02), which erases its gate bias; so
// γ = ½ at its start. gate_bias = 0 gives the same. It has no gate loss either: gate_weight = 0.
// Probes: operator (B, T', n, n); gamma, beta (B, T', 1); pre, post (B, T, n, n). T' is 1 for
// pool = sequence and T otherwise.
#pragma once

#include "geores/modules/layers.h"
#include "geores/ops/streams/pool.h"
#include "geores/residual/registry.h"

namespace geores {

struct EdeltaStreamOptions {
  std::string pool = "sequence";
  int64_t hidden = 48;
  double gate_bias = 1.5;
  double gate_weight = 0.0;

  Fields fields();
};

class EdeltaStream final : public Residual {
 public:
  EdeltaStream(const ResidualConfig& config, const EdeltaStreamOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }

 private:
  EdeltaStreamOptions options_;
  Pool pool_;
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_, generator_norm_, router_norm_;
  std::shared_ptr<Perceptron> generator_;
  torch::nn::Linear router_{nullptr};
};

Connection edelta_stream_connection();

}  // namespace geores
