// Whether operations on a tensor take the forms of a GPU: it is on CUDA, or this build emulates a GPU for
// tests (kernels/cuda/emulated). Only this file asks LibTorch whether a tensor is on CUDA.
#pragma once

#include "geores/kernels/device.h"
#include "geores/ops/torch.h"

namespace geores {

inline bool on_gpu(const torch::Tensor& x) { return x.is_cuda() || kernels::kEmulated; }
inline bool on_gpu(const torch::Device& device) { return device.is_cuda() || kernels::kEmulated; }

}  // namespace geores
