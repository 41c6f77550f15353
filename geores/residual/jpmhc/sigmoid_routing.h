// Routing shared by JPmHC's sinkhorn, grassmann and permutation mixers:
//   x' = RMSNorm(x);  read = σ(α x'W_pre + b), write = 2σ(α x'W_post + b) ∈ R^n;  H_res from x'
// W = 0 at the start, α = 0.01 per stream, b = 0. The paper prints only the sizes of these modules
// (49,188, 32,796 and 28,694 at n = 4, nd = 2048); one scale per stream for read, write and the
// rows of H̃_res, none for the permutation logits, is what gives all three.
#pragma once

#include <string>

#include "geores/modules/layers.h"
#include "geores/residual/jpmhc/mixer.h"

namespace geores {

class SigmoidRouting : public JpmhcMixer {
 public:
  SigmoidRouting(int64_t width, int64_t n) : width_(width) {
    pre_ = projection("pre", torch::zeros({n}), torch::full({n}, 0.01));
    post_ = projection("post", torch::zeros({n}), torch::full({n}, 0.01));
  }

  JpmhcRoutes route(const Tensor& x) final {
    const auto [routes, skip] = ScaledProjection::forward_sigmoids(
        {pre_.get(), post_.get(), res_.get()}, x, {.layer = false}, pre_->bias().numel(), 0);
    const auto& [read, write, others] = routes;
    const auto& shape = res_->bias();
    return {
        .routes = {.res = mixing(shape.dim() > 1 ? others.unflatten(-1, shape.sizes()) : others),
                   .read = read,
                   .write = write},
        .skip = skip};
  }

 protected:
  // Computes H_res from the output of the projection res_.
  virtual Tensor mixing(const Tensor& projected) = 0;

  std::shared_ptr<ScaledProjection> projection(const std::string& name, const Tensor& bias,
                                               const Tensor& scale) {
    return register_module(name, std::make_shared<ScaledProjection>(width_, bias, scale));
  }

  std::shared_ptr<ScaledProjection> res_;  // created by each mixer

 private:
  int64_t width_;
  std::shared_ptr<ScaledProjection> pre_, post_;
};

}  // namespace geores
