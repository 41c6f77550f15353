// For a LibTorch with CUDA.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include "geores/train/recorded_work.h"

namespace geores {

struct DeviceStream::Guard {
  c10::cuda::CUDAStreamGuard stream{at::cuda::getStreamFromPool()};
};
DeviceStream::DeviceStream(const torch::Device& device) {
  if (device.is_cuda()) guard_ = std::make_unique<Guard>();
}
DeviceStream::~DeviceStream() {
  if (guard_) at::cuda::getCurrentCUDAStream().synchronize();
}

struct RecordedWork::Graph {
  static constexpr int kRunsBefore = 3;
  at::cuda::CUDAGraph graph;
  int runs = 0;
};
RecordedWork::RecordedWork(const torch::Device& device, std::function<void()> work)
    : work_(std::move(work)) {
  if (device.is_cuda()) graph_ = std::make_unique<Graph>();
}
RecordedWork::~RecordedWork() = default;

void RecordedWork::run() {
  if (!graph_ || graph_->runs < Graph::kRunsBefore) {
    work_();
    if (graph_) ++graph_->runs;
    return;
  }
  if (graph_->runs++ == Graph::kRunsBefore) {
    at::cuda::getCurrentCUDAStream().synchronize();
    // Other threads may allocate meanwhile: only this one is recorded.
    graph_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    work_();
    graph_->graph.capture_end();
  }
  graph_->graph.replay();
}

}  // namespace geores
