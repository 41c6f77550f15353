// Several projections of the same x as one product: rows of weights, each times its scale, plus a
// bias.
#pragma once

#include <functional>
#include <vector>

#include "geores/kernels/device.h"
#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// scale ⊙ (W h) + bias, its values in the order of the bias: weight (bias.numel(), in); scale of
// any shape that broadcasts to the bias's along leading axes, or undefined for 1.
struct ProjectionWeights {
  Tensor weight, bias, scale;
};

// The same for operations of their own on a GPU: what is multiplied with, and how the gradients of
// that become those of the parameters, in their order.
class PackedProjections {
 public:
  // Weight, bias and, where it has one, scale of each, one after the other.
  PackedProjections(at::TensorList parameters, std::vector<int64_t> has_scale);
  static std::vector<Tensor> parameters_of(const std::vector<ProjectionWeights>& projections);
  static std::vector<int64_t> scales_of(const std::vector<ProjectionWeights>& projections);
  static bool fit(const std::vector<ProjectionWeights>& projections);

  struct Packed {
    Tensor weight, bias;  // (rows, in) in the type of products, (rows)
  };
  Packed packed() const;
  // Adds the gradients of parameters that have a place to it. The others come back; undefined: none.
  std::vector<Tensor> gradients(const Tensor& dweight, const Tensor& dbias,
                                const std::vector<Tensor>& slots) const;

  // Of normalized values before the norm's weight and bias (each may be undefined), which become
  // part of it: for kernels that multiply by themselves (kernels/token_routes.h).
  struct PackedBehindNorm {
    Tensor forward, backward, bias;
  };
  PackedBehindNorm packed_behind(const Tensor& norm_weight, const Tensor& norm_bias) const;
  // The gradients of the parameters and of the norm's (undefined where it has none) are added to;
  // f(stream) does it, later.
  std::function<void(kernels::CudaStream)> unpacking_behind(
      const Tensor& norm_weight, const Tensor& norm_bias, const Tensor& dweight,
      const Tensor& dbias, const std::vector<Tensor>& gradients, const Tensor& dnorm_weight,
      const Tensor& dnorm_bias) const;

 private:
  int64_t rows() const;

  std::vector<Tensor> parameters_;
  std::vector<int64_t> has_scale_;
};

// All of them as one map, their scales in its weights: weight (Σ bias.numel(), in), bias.
LinearMap side_by_side(const std::vector<ProjectionWeights>& projections);

// What all of them make of h (..., in), side by side: (..., Σ bias.numel()), in the parameters'
// type.
Tensor projected_together(const Tensor& h, const std::vector<ProjectionWeights>& projections);

// x (B, T, D) + rows (T, D), the same rows for each sequence, + bias (D), or undefined for 0.
Tensor add_to_each(const Tensor& x, const Tensor& rows, const Tensor& bias = {});

}  // namespace geores
