// Several projections of the same x as one product: rows of weights, each with its scale, plus a
// bias.
#pragma once

#include <functional>
#include <vector>

#include "geores/kernels/device.h"
#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// scale ⊙ (W h) + bias, with values in the order of the bias: weight (bias.numel(), in); scale
// broadcasts to the bias along leading axes, or is undefined for 1.
struct ProjectionWeights {
  Tensor weight, bias, scale;
};

// The same for operations with their own backward pass on a GPU: the packed factors of the product,
// and the unpacking of their gradients to the parameters, in order.
class PackedProjections {
 public:
  // Weight, bias and, if it has one, scale of each projection, in order.
  PackedProjections(at::TensorList parameters, std::vector<int64_t> has_scale);
  static std::vector<Tensor> parameters_of(const std::vector<ProjectionWeights>& projections);
  static std::vector<int64_t> scales_of(const std::vector<ProjectionWeights>& projections);
  static bool fit(const std::vector<ProjectionWeights>& projections);

  struct Packed {
    Tensor weight, bias;  // (rows, in) in the type of products, (rows)
  };
  Packed packed() const;
  // Adds the gradients of parameters with a slot to it and returns the others; undefined: none.
  std::vector<Tensor> gradients(const Tensor& dweight, const Tensor& dbias,
                                const std::vector<Tensor>& slots) const;

  // The projections of values before the norm's weight and bias (each may be undefined), which are
  // folded in, for kernels that multiply by themselves (kernels/token_routes.h).
  struct PackedBehindNorm {
    Tensor forward, backward, bias;
  };
  PackedBehindNorm packed_behind(const Tensor& norm_weight, const Tensor& norm_bias) const;
  // Adds to the gradients of the parameters and of the norm's (undefined without them); f(stream)
  // runs later.
  std::function<void(kernels::CudaStream)> unpacking_behind(
      const Tensor& norm_weight, const Tensor& norm_bias, const Tensor& dweight,
      const Tensor& dbias, const std::vector<Tensor>& gradients, const Tensor& dnorm_weight,
      const Tensor& dnorm_bias) const;

 private:
  int64_t rows() const;

  std::vector<Tensor> parameters_;
  std::vector<int64_t> has_scale_;
};

// All projections as one map, with their scales folded in: weight (Σ bias.numel(), in), bias.
LinearMap side_by_side(const std::vector<ProjectionWeights>& projections);

// The results of all projections of h (..., in), concatenated: (..., Σ bias.numel()), in the type
// of the parameters.
Tensor projected_together(const Tensor& h, const std::vector<ProjectionWeights>& projections);

// x (B, T, D) + rows (T, D), the same for each sequence, + bias (D), or undefined for 0.
Tensor add_to_each(const Tensor& x, const Tensor& rows, const Tensor& bias = {});

}  // namespace geores
