// Linear maps around a sublayer F, in any connection: h -> H_post F(H_pre h).
// normal     entries from a normal distribution of standard deviation maps_std, trained; with 0.02
//                           the public code of EΔ (arXiv:2605.06729)
//     identity   maps_factor · I, trained; with 1 the initialisation stated in EΔ's paper
//   fixed      maps_factor · I, not trained. AdamW's steps do not depend on the size of a gradient, so
//              a sublayer's effective weights, maps_factor times the trained ones, learn at maps_factor
//              times the learning rate
// Both are folded into F's first and last weights (folding.h). With branch_width the sublayer works
// at that width, H_pre maps to it and H_post back.
#pragma once

#include <memory>

#include "geores/model/folding.h"
#include "geores/model/sublayers/sublayers.h"

namespace geores {

class BranchMaps : public torch::nn::Module {
 public:
  // From `width` to `inner` and back.
  BranchMaps(const SublayerOptions& options, int64_t width, int64_t inner);

  const Tensor& pre() const { return pre_; }    // (inner, width); undefined: none
  const Tensor& post() const { return post_; }  // (width, inner); undefined: none

 private:
  Tensor pre_, post_;
};

// Null for maps = none.
std::shared_ptr<BranchMaps> make_maps(const SublayerOptions& options, int64_t width, int64_t inner);

// Multiplies the initial values of the sublayer's first and last weights by first_start and
// last_start.
void scale_start(const Folding& sublayer, const SublayerOptions& options);

}  // namespace geores
