// Rotations of four streams by two unit quaternions, x ↦ p x q̄: SO(4), which they cover twice. Streams
// 0 to 3 are the parts 1, i, j, k of x.
//   p, q (..., 4), of any length but 0  ->  L(p/‖p‖) R(q̄/‖q‖) (..., 4, 4)
// L(p) multiplies by p on the left, R(q) by q on the right; the two commute, and each is orthogonal
// with determinant +1. So is the product, to rounding, without a solve. p = q = (1, 0, 0, 0) is the
// identity; p and −p turn opposite ways round, and (−p, −q) is the same rotation as (p, q).
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

Tensor quaternion_rotation(const Tensor& p, const Tensor& q);

}  // namespace geores
