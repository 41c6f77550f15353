// Operators that are generated from the mean of a whole sequence, from its running mean, or from a
// token, in few kernels on a GPU: a dozen perceptrons on one vector each are far too small to be
// separate operations. Each function here returns nullopt where no kernel fits; the connection then
// uses the composed operator.
#pragma once

#include <optional>
#include <vector>

#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/streams/pool.h"
#include "geores/ops/streams/state.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// EΔ's hybrid operator G = γ Q(u, v, softplus β) + (1 − γ)(I − 2kkᵀ), one for each sequence or, for
// the other pools, for each token. The perceptrons share one hidden width.
struct Hybrid {
  Tensor g;        // (B, 1 or T, n, n)
  Tensor penalty;  // its sum is weight · mean 4γ(1 − γ); undefined for weight 0
  Tensor
      skip;  // x with its branch, for the path around the sublayer; its gradient is added in the same pass
};
struct HybridGate {
  Tensor weight, bias;  // of the linear map to the logit: (1, D), (1)
  bool entropy;         // logit times (1 + mean stream entropy)
  double penalty_weight;
};
std::optional<Hybrid> fused_hybrid(const State& state, Pool pool, int64_t streams,
                                   const std::vector<PerceptronWeights>& u_v_beta_k,
                                   const HybridGate& gate);

// G x for EΔ-Stream's operator of a whole sequence, G as above: one perceptron computes [u | v | β
// | k | logit of γ] from LN(mean), with the norm's weight and bias. x (B, T, n·d).
struct JointMix {
  Tensor mixed;    // G x (B, T, n·d)
  Tensor penalty;  // its sum is weight · mean 4γ(1 − γ); undefined for weight 0
};
std::optional<JointMix> fused_joint_mix(const Tensor& x, int64_t streams, const Tensor& norm_weight,
                                        const Tensor& norm_bias,
                                        const PerceptronWeights& perceptron, double penalty_weight);

// DDL's direction and strength of a sequence: k (B, 1, D) of length 1, beta (B, 1, 1) = 2σ(·).
struct SequenceErase {
  Tensor k, beta, skip;
};
std::optional<SequenceErase> fused_sequence_erase(const State& state,
                                                  const std::vector<PerceptronWeights>& k_beta);

// g = x − β k (kᵀx) and LN(g), for k and beta of sequences (or of tokens: composed).
NormAndSkip erase_and_norm(const Tensor& k, const Tensor& beta, const Tensor& x,
                           const Tensor& weight);

// Computes g and LN(g) from the state, with a direction and a strength for each token: for the
// pools causal and token.
std::optional<NormAndSkip> fused_token_erase(const State& state, Pool pool,
                                             const std::vector<PerceptronWeights>& k_beta,
                                             const Tensor& weight);

}  // namespace geores
