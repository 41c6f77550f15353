// EΔ-Stream (arXiv:2605.06729, the stream-width variant), split layout. The sublayer F works at the
// width d = D/n of one stream.
//   [u | v | β | k | γ] = Perceptron(LN(x̄))                 3n + 2 values per operator
//   g  = G x as in edelta                                   (B, T, n, d)
//   [H_pre | H_post] = Linear(LN(g flat))                   n × n each, per token;
//                      H_pre softmax over columns, H_post softmax over rows
//   x' = g + H_post (F(LN(mean_i (H_pre g)_i)) ⊗ 1)         F's output is written to every stream
// The reference draws the last perceptron layer from N(0, 0.02), which overwrites its gate bias, so
// its initial γ is ½. gate_bias = 0 gives the same. It has no gate loss either: gate_weight = 0.
// A recursive model (model/recursive/) uses other options:
//   generator_norm = rms    x / √(mean x² + 1e-5) in place of both LN before generators and routes
//   read_norm = none        no LN before F: the model normalizes the state after each connection
//   reflection = whole      k has D values, and I − 2kkᵀ acts on all of x instead of its streams:
//                           g = γ Q x + (1 − γ)(x − 2k(kᵀx)); needs an operator for each token
//   start = spread          generators of order 1: biases N(0, 0.3) for u and v, N(0, 1) for k
//   start = zero            all zero but the gate, as in EΔ's code for its recursive model: u = v =
//                           0 is a saddle of uvᵀ − vuᵀ, so u, v and β never get a gradient
// start = identity        the same with γ = 1 and the usual routes: G = I, and no gradient
//                                                     changes it, so that only the routes differ
//                           from a plain model
// Probes: operator (B, T', n, n), for reflection = whole (B, T, D, D); gamma, beta (B, T', 1); pre, post (B, T, n, n). T' is 1 for
// pool = sequence and T otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "geores/modules/layers.h"
#include "geores/ops/streams/pool.h"
#include "geores/residual/registry.h"
#include "geores/residual/routed_connection.h"

namespace geores {

struct EdeltaStreamOptions {
  std::string pool = "sequence";
  int64_t hidden = 48;
  double gate_bias = 1.5;
  double gate_weight = 0.0;
  std::string generator_norm = "affine";
  std::string read_norm = "layer";
  std::string reflection = "streams";
  std::string start = "small";

  Fields fields();
};

class EdeltaStream final : public RoutedConnection {
 public:
  EdeltaStream(const ResidualConfig& config, const EdeltaStreamOptions& options);
  // The form for a recursive model; with weighted norms it runs partly composed.
  bool supports_bf16_state() const override;
  std::unique_ptr<TokenStep> token_step(int64_t /*batch*/) const override { return nullptr; }

 private:
  void draw_start();
  RoutedSpec spec() const override;  // of the routes around g = G x
  Routed routed(const State& state, Trace& trace) override;
  // (B, T', 2n + 2 + size of k) from x, and x for its other uses.
  ProjectionAndSkip generators_of(const Tensor& x, Trace& trace);
  struct Mixed {
    Tensor g;           // G x
    Tensor for_routes;  // norm of g, if a kernel has computed both; else undefined
  };
  Mixed mixed(const Tensor& x, Trace& trace);
  // By one kernel, for an operator of the whole sequence; nullopt where none fits.
  std::optional<Mixed> mixed_at_once(const Tensor& x, Trace& trace);
  void probe_routes(const Mixed& mixed, Trace& trace) const;
  bool reflects_whole() const { return options_.reflection == "whole"; }

  EdeltaStreamOptions options_;
  Pool pool_;
  std::shared_ptr<LayerNorm> norm_, generator_norm_, router_norm_;
  std::shared_ptr<Perceptron> generator_;
  torch::nn::Linear router_{nullptr};
};

Connection edelta_stream_connection();

}  // namespace geores
