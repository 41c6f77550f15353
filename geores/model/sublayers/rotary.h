// Rotary positions (RoFormer, arXiv:2104.09864): the vector at position m is turned by m·f_i in the
// plane of its values i and i + d/2,
//   f_i = 10000^(−2i/d),  i < d/2
//   x'_i       = x_i cos(m f_i) − x_{i+d/2} sin(m f_i)
//   x'_{i+d/2} = x_{i+d/2} cos(m f_i) + x_i sin(m f_i)
// so the product of a query at m and a key at n depends on m − n alone.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// x: (..., T, d), d even; its positions are first, first + 1, ...
Tensor rotate_by_position(const Tensor& x, int64_t first);

}  // namespace geores
