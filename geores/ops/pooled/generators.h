// What a connection reads off the mean of a whole sequence, of its past or off a token, in few
// kernels on a GPU: a dozen perceptrons on one vector each are far too small to be operations of
// their own. The composed forms stand with the connections.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/streams/pool.h"

namespace geores {

using torch::Tensor;

// Whether those below can run: on a GPU, x (B, T, D), with perceptrons of the same hidden width.
bool generators_run_fused(const Tensor& x, Pool pool, int64_t streams,
                          const std::vector<PerceptronWeights>& perceptrons);

// EΔ's hybrid operator G = γ Q(u, v, softplus β) + (1 − γ)(I − 2kkᵀ), one for each sequence or, for
// the other pools, for each token.
struct Hybrid {
  Tensor g;        // (B, 1 or T, n, n)
  Tensor penalty;  // its sum is weight · mean 4γ(1 − γ)
  Tensor skip;     // x, its branch added, for the path around: its gradient joins in the same pass
};
struct HybridGate {
  Tensor weight, bias;  // of the linear map to the logit: (1, D), (1)
  bool entropy;         // logit times (1 + mean stream entropy)
  double penalty_weight;
};
Hybrid sequence_hybrid(const State& state, int64_t streams,
                       const std::vector<PerceptronWeights>& u_v_beta_k, const HybridGate& gate);
Hybrid token_hybrid(const State& state, Pool pool, int64_t streams,
                    const std::vector<PerceptronWeights>& u_v_beta_k, const HybridGate& gate);

// DDL's direction and strength: k (B, 1, D) of length 1, beta (B, 1, 1) = 2σ(·).
struct SequenceErase {
  Tensor k, beta, skip;
};
SequenceErase sequence_erase(const State& state, const std::vector<PerceptronWeights>& k_beta);

// g = x − β k (kᵀx) and LN(g), for k and beta as above.
NormAndSkip erase_and_norm(const Tensor& k, const Tensor& beta, const Tensor& x,
                           const Tensor& weight);

// All of it for the other pools: a direction and a strength for each token.
NormAndSkip token_erase_and_norm(const State& state, Pool pool,
                                 const std::vector<PerceptronWeights>& k_beta,
                                 const Tensor& weight);

}  // namespace geores
