// Hyper-connections whose tokens a GPU holds from the gradient of what was read to that of the state
// (kernels/routed/held_streams.h): wide_sigmoid_routes() and WideStreams (wide.h) as one operation, with half
// of the passes over the state in the backward pass.
//   if (const auto held = HeldStreams::make(x, ...)) return held->write(mixer(held->routes()), f(held->read()));
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "geores/ops/routed/wide.h"

namespace geores {

class HeldStreams {
 public:
  // x (B, T, n, d) in bfloat16. Nothing where no kernel fits, or no gradient is wanted.
  static std::optional<HeldStreams> make(const Tensor& x, double epsilon,
                                         const std::vector<ProjectionWeights>& projections,
                                         double offset, const ReadNormSpec& norm);

  // Of these `read` has no gradient: its own is found within.
  const SigmoidRoutes& routes() const { return routes_; }

  const Tensor& read() const { return read_; }  // Norm(Σ_j read_j x_j): (B, T, d)

  // Σ_j res_ij x_j + write_i y (B, T, n, d). May be used more than once, with one and the same res.
  Tensor write(const Tensor& res, const Tensor& y) const;

 private:
  HeldStreams(SigmoidRoutes routes, Tensor read, Tensor carried, std::shared_ptr<Tensor> res);

  SigmoidRoutes routes_;
  Tensor read_, carried_;
  // Where the reading operation finds res in its backward pass: it is made of what that operation returns.
  std::shared_ptr<Tensor> res_;
};

}  // namespace geores
