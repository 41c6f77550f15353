// HC: hyper-connections (hyper_connection.h) with an unconstrained mixer (Zhu et al.,
// arXiv:2409.19606, Eqs. 10-13; as Xie et al., arXiv:2512.24880, Eq. 5, with RMSNorm). Each stream
// says by itself how it is read, mixed and written; x_j is the stream j of a token:
//   z_j = RMSNorm(x_j) ∈ R^C
//   H_pre[j] = s tanh(z_j θ_pre) + b_pre[j],  H_post[j] = s' tanh(z_j θ_post) + b_post[j]
//   H_res[i, j] = s tanh(z_j Θ_res)[i] + b_res[i, j]            how stream j goes to stream i
// θ_pre, θ_post (C), Θ_res (C × n); pre and res share the scale s.
// Start: b_pre = 1 for stream `index` mod n and 0 for the others, b_res = I, b_post = 1, all θ = 0:
// every stream then is the state of a pre-norm GPT. s = s' = 0.01, without gradient until the θ have
// moved.
// Nothing bounds a product of such matrices over depth. The other hyper-connections constrain H_res
// for that reason.
// dynamic = false: Zhu et al.'s static hyper-connections. The routes are the b alone, the same for all
// tokens; with one stream that is a learned factor on the carried state and one on the written output.
// decay_static: b_pre and b_res decay and θ_post does not, as in the public mHC-lite code.
//
// form = sigmoid: not a published connection. H_pre, H_post as in mHC (hyper_connection.h)
// and H_res = α x'W + b, b = I. It was geores' `hc` before it had a form.
#pragma once

#include "geores/residual/hyper_connection.h"

namespace geores {

struct HcOptions {
  std::string form = "original";
  bool dynamic = true;
  HyperOptions hyper;

  Fields fields();
};

class Hc final : public HyperConnection {
 public:
  Hc(const ResidualConfig& config, const HcOptions& options);
  std::vector<Tensor> decay_exceptions() const override;

 private:
  RoutedSpec spec() const override;

  // A dynamic part, the same for all streams, undefined where the routes are static, and a static part for
  // each.
  struct Map : torch::nn::Module {
    Map(int64_t outputs, int64_t width, const Tensor& start, bool dynamic);
    Tensor weight, bias;
  };
  bool dynamic_;
  std::shared_ptr<Map> pre_, res_, post_;
  Tensor scale_, post_scale_;
};

class SigmoidHc final : public HyperConnection {
 public:
  SigmoidHc(const ResidualConfig& config, const HcOptions& options);

 private:
  RoutedSpec spec() const override { return spec_with(FreeRouting()); }
};

Connection hc_connection();

}  // namespace geores
