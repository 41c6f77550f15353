#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// silu(gate) · up, with the last axis of x as [gate | up] (Shazeer, arXiv:2002.05202).
Tensor swiglu(const Tensor& x);

}  // namespace geores
