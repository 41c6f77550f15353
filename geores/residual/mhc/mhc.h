// mHC: hyper-connections (hyper_connection.h) with a doubly stochastic mixer (Xie et al.,
// arXiv:2512.24880, Eqs. 7-9; arXiv:2603.20896, Eq. 3).
//   H_res = Sinkhorn(α x'W + b), 20 iterations in log space, rows last
// Start: b is 0 on the diagonal and −8 (`off_diagonal`) elsewhere, so ‖H_res − I‖₂ ~ n e⁻⁸.
// Invariant: the rows of H_res sum to 1; the sums of its columns and ‖H_res‖₂ = 1 hold up to the
// error of the iteration.
// The paper uses sinkhorn_gradient = unrolled (Xie et al., 4.3.1); the implicit gradient is that of
// the limit and needs no memory for iterations. They differ near the identity, where 20 iterations
// have not converged.
// mixer = identity: H_res = I and everything else unchanged, the control for the mixer's effect.
//
// form = v4: the form of DeepSeek-V4, which has public weights. ε is `guard`; the norms of the
// state and of the sublayer's input are RMSNorms.
//   H_pre = σ(·) + ε;  H_res = softmax over columns + ε, then rows, then (iterations − 1) × (columns,
//   rows), each divided by (sum + ε)
// The public code stores H_resᵀ ("comb"). The options of Sinkhorn's order, bound and gradient have
// no effect.
//
// form = v41: the form of DeepSeek-V4.1. The routes are those of v4, but a sublayer reads with the H_pre
// of the connection before it, the first one stream 0 alone, and the last H_pre collapses the streams
// after the last block. H_pre travels in State::read, so stacks call advance(); forward() is that of a
// first connection.
//
// head = learned: after the last block the streams are not summed but weighed by σ(α x'W + b) + ε
// (modules/stream_head.h), as in DeepSeek-V4.
#pragma once

#include "geores/ops/mixers/sinkhorn.h"
#include "geores/residual/hyper_connection.h"

namespace geores {

struct MhcOptions {
  std::string form = "paper";
  std::string mixer = "sinkhorn";
  int64_t sinkhorn_iterations = 20;
  std::string sinkhorn_gradient = "implicit";
  std::string sinkhorn_order = "rows_last";
  double logit_bound = 0;
  double off_diagonal = -8;
  double guard = 1e-6;
  std::string head = "sum";
  HyperOptions hyper;

  Fields fields();
};

class Mhc final : public HyperConnection {
 public:
  Mhc(const ResidualConfig& config, const MhcOptions& options);
  std::shared_ptr<StreamHead> make_head() const override;

 private:
  RoutedSpec spec() const override;

  MhcOptions options_;
  SinkhornSpec sinkhorn_;
};

Connection mhc_connection();

}  // namespace geores
