// For a LibTorch with CUDA.
#include <ATen/cuda/CUDAContext.h>

#include "geores/ops/fused.h"

namespace geores::fused {

kernels::Stream current_stream() { return at::cuda::getCurrentCUDAStream().stream(); }

}  // namespace geores::fused
