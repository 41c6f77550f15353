// The implementation for tests, with an emulated GPU, where all work is done when a launch returns.
#include "geores/ops/run/dispatch.h"

namespace geores::fused {

kernels::CudaStream current_cuda_stream() { return nullptr; }
kernels::CudaStream make_side_stream() { return nullptr; }
void destroy_side_stream(kernels::CudaStream) noexcept {}
kernels::Event record_event(kernels::CudaStream) { return nullptr; }
void wait_for_event(kernels::CudaStream, kernels::Event) {}
bool gpu_is_hopper() { return true; }

}  // namespace geores::fused
