// EΔ-MHC-Geo residual (arXiv:2605.06729, Eq. 6), split layout: the width D is cut into n streams of
// width d. F is the sublayer; a batch has B sequences of T positions; σ is the logistic function.
//   g  = G x,   G = γ Q + (1 − γ) H                 x as (B, T, n, d); G (B, T', n, n)
//   x' = g + H_post F(H_pre LN(g))                  H_pre, H_post (D, D), learned
// Q = (I + M)⁻¹(I − M), M = (β/2)(u vᵀ − v uᵀ): a Cayley rotation (det +1).
// H = I − 2 k kᵀ: a Householder reflection (det −1).
// Small perceptrons compute u, v, β and k from x̄, the mean of x over positions; γ = σ(w·x̄ + b).
// There is one operator G for each sequence (T' = 1) or for each token (T' = T): see `pool`.
// Auxiliary loss (the gate loss): gate_weight times the mean of 4γ(1 − γ) over all operators.
//
// Invariant: ‖GᵀG − I‖₂ = 4γ(1 − γ), and the smallest singular value of G is |2γ − 1|. So G is
// singular at γ = ½, and with the default gate_bias γ starts away from ½.
//
// Three options reproduce the published numbers, each with a limitation:
//   pool = sequence  averages over all T positions, so every position sees the future: not causal.
//                    pool = causal averages over positions 0 to t; pool = token: x̄ is x.
//   init = reference draws H_pre and H_post from a normal distribution of mean 0 and standard
//                    deviation init_std, 0.02 as in the public code; the paper states that they
//                    start as the identity.
//   gate = entropy   γ = σ((w·x̄ + b)(1 + φ)), where φ is the stream entropy of each token,
//                    1 − ‖XXᵀ‖²_F/tr(XXᵀ)², pooled as x is; X (n, d) holds the streams of a
//                    token. The paper describes only the plain gate.
// anchor is the length of the initial bias of k before it is normalised. The published value is 0:
// k is then the direction of a vector close to 0 and changes fast with x, and gradients grow by a
// factor in each layer of a deep model (Edelta.AnAnchorKeepsGradientsOfDeepModelsSmall,
// docs/notebook/own.md).
// gate_value = hard rounds γ to 0 or 1, so that G is orthogonal; gradients ignore the rounding
// (straight-through, Bengio et al., arXiv:1308.3432), and so does the gate loss.
// The option operator = identity is the control without geometry: G = I, the same H_pre and H_post,
// no gate.
// Probes: operator (B, T', n, n); gamma, beta (B, T', 1); angle (B, T', 1) of Q in radians.
#pragma once

#include "geores/modules/layers.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/streams/pool.h"
#include "geores/residual/registry.h"

namespace geores {

struct EdeltaOptions {
  std::string operator_name = "hybrid";
  std::string pool = "sequence";
  std::string init = "identity";
  double init_std = 0.02;
  std::string gate = "plain";
  std::string gate_value = "soft";
  double gate_bias = 1.5;
  double gate_weight = 0.1;
  int64_t hidden_ratio = 4;
  double anchor = 0;

  Fields fields();
};

class Edelta final : public Residual {
 public:
  Edelta(const ResidualConfig& config, const EdeltaOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override {
    return advance(x, f, trace).total();
  }
  State advance(const State& state, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }
  Tensor pre() const override { return pre_->weight; }
  Tensor post() const override { return post_->weight; }
  std::unique_ptr<TokenStep> token_step(int64_t batch) const override;

 private:
  bool rotates() const { return is("hybrid") || is("cayley"); }
  bool reflects() const { return is("hybrid") || is("householder"); }
  bool is(const char* name) const { return options_.operator_name == name; }
  bool gated() const { return rotates() && reflects(); }
  bool hard() const { return gated() && options_.gate_value == "hard"; }

  // The operator (B, T', n, n), and the state x to which it is applied.
  std::pair<Tensor, Tensor> operator_and_skip(const State& state, Trace& trace);
  // The perceptrons of u, v, β and k; null if the operator does not need them.
  std::vector<Perceptron*> perceptrons() const;
  HybridGenerators generators(const Tensor& summary);
  Tensor operator_from(const HybridGenerators& p) const;
  void probe(const HybridGenerators& p, Trace& trace) const;
  Tensor gate(const Tensor& summary, const Tensor& streams, Trace& trace);

  EdeltaOptions options_;
  Pool pool_;
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Perceptron> u_, v_, beta_, k_;  // only those the operator needs
  torch::nn::Linear gate_{nullptr}, pre_{nullptr}, post_{nullptr};
};

Connection edelta_connection();

}  // namespace geores
