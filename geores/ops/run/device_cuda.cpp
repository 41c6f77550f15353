// For a LibTorch with CUDA.
#include <ATen/cuda/CUDAContext.h>

#include "geores/ops/run/fused.h"

namespace geores::fused {

kernels::Stream current_stream() { return at::cuda::getCurrentCUDAStream().stream(); }

kernels::Stream side_stream() {
  struct Owned {
    kernels::Stream stream = nullptr;
    Owned() {
      int lowest = 0, highest = 0;
      C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
      C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, lowest));
    }
    ~Owned() { cudaStreamDestroy(stream); }
  };
  thread_local const Owned owned;
  return owned.stream;
}

kernels::Event record_event(kernels::Stream stream) {
  kernels::Event event = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaEventRecord(event, stream));
  return event;
}

void wait_for_event(kernels::Stream stream, kernels::Event event) {
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
  C10_CUDA_CHECK(cudaEventDestroy(event));
}

}  // namespace geores::fused
