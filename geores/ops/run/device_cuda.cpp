// The implementation with CUDA.
#include <ATen/cuda/CUDAContext.h>

#include "geores/ops/run/dispatch.h"

namespace geores::fused {

kernels::CudaStream current_cuda_stream() { return at::cuda::getCurrentCUDAStream().stream(); }

kernels::CudaStream make_side_stream() {
  kernels::CudaStream stream = nullptr;
  int lowest = 0, highest = 0;
  C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, lowest));
  return stream;
}

void destroy_side_stream(kernels::CudaStream stream) noexcept { cudaStreamDestroy(stream); }

kernels::Event record_event(kernels::CudaStream stream) {
  kernels::Event event = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaEventRecord(event, stream));
  return event;
}

void wait_for_event(kernels::CudaStream stream, kernels::Event event) {
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
  C10_CUDA_CHECK(cudaEventDestroy(event));
}

bool gpu_is_hopper() { return at::cuda::getCurrentDeviceProperties()->major == 9; }

}  // namespace geores::fused
