// The mixers of JPmHC, which compute one token's H_res, H_pre and H_post from its D values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "geores/base/config.h"
#include "geores/ops/routed/spec.h"
#include "geores/ops/torch.h"
#include "geores/residual/residual.h"

namespace geores {

struct JpmhcOptions {
  std::string layout = "split";
  std::string mixer = "cayley";
  double cayley_alpha = 0.1;
  int64_t cayley_iterations = 2;
  double temperature = 1.0;
  bool bias = true;
  std::string generator_norm = "affine";
  double init_std = 0.02;
  std::string read_norm = "layer";
  int64_t sinkhorn_iterations = 20;
  std::string sinkhorn_gradient = "implicit";
  double grassmann_step = 0.01;
  int64_t permutation_seed = 42;

  Fields fields();
};

class JpmhcMixer : public torch::nn::Module {
 public:
  virtual RoutedSpec spec() const = 0;  // of the routes; the connection adds its read norm
  virtual InitialMap initial_map() const { return InitialMap::other; }
  virtual std::vector<Tensor> manifold_parameters() const { return {}; }
  virtual void manifold_step() {}
};

// The mixture of six permutations: Σ softmax(logits)_m P_m.
Tensor permutation_start();                                        // logits (6): the identity
Tensor flat_permutations(int64_t n, const JpmhcOptions& options);  // (6, n²)
std::shared_ptr<JpmhcMixer> make_jpmhc_mixer(int64_t width, int64_t n, const JpmhcOptions& options);

}  // namespace geores
