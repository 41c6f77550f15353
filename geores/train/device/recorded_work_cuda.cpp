// The implementation with CUDA.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_profiler_api.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "geores/ops/run/on_gpu.h"
#include "geores/train/device/recorded_work.h"

namespace geores {

namespace {

std::shared_mutex recording;  // held shared by threads that are recording

// LibTorch has one list of recordings, for its random numbers, and does not lock it.
std::mutex listing;

// Memory that was allocated for one stream or recording is not reused by another: over many runs it
// would exhaust the GPU in the middle of a recording, when no memory can be freed. Freeing stops
// all running work, so it happens only if less than half of the memory is free, or if the first
// steps of a large model hold as much as its recording will need.
void give_memory_back() noexcept try {
  constexpr int64_t much = int64_t{2} << 30;
  const std::unique_lock nobody_records(recording);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  const auto kept = stats.reserved_bytes[0].current - stats.allocated_bytes[0].current;
  size_t free = 0, total = 0;
  if (kept > much || (cudaMemGetInfo(&free, &total) == cudaSuccess && free < total / 2))
    c10::cuda::CUDACachingAllocator::emptyCache();
} catch (const std::exception&) {  // the next recording retries
}

// LibTorch assigns its 32 streams round-robin: a long run would share its stream with a later one,
// whose kernels would enter the recording of the first. A stream that is free again goes to the
// next run, which reuses the memory that LibTorch caches for it, so no stream is ever destroyed.
class OwnStream {
 public:
  OwnStream() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      // Waits for the work that a step leaves on the side stream (ops/weight_gradients.h).
      int lowest = 0, highest = 0;
      C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
      C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest));
    } else {
      stream_ = free_.back();
      free_.pop_back();
    }
  }
  ~OwnStream() {
    const std::lock_guard lock(mutex_);
    free_.push_back(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  c10::cuda::CUDAStream get() const {
    return c10::cuda::getStreamFromExternal(stream_, c10::cuda::current_device());
  }

 private:
  inline static std::mutex mutex_;
  inline static std::vector<cudaStream_t> free_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

struct OwnCudaStream::Guard {
  OwnStream own;
  c10::cuda::CUDAStreamGuard current{own.get()};
};
OwnCudaStream::OwnCudaStream(const torch::Device& device) {
  if (on_gpu(device)) guard_ = std::make_unique<Guard>();
}
OwnCudaStream::~OwnCudaStream() {
  if (!guard_) return;
  // Unchecked: this may run during unwinding from an error that says more.
  cudaStreamSynchronize(at::cuda::getCurrentCUDAStream());
  give_memory_back();
}

namespace {

// LibTorch 2.8 and later can keep the captured graph next to the executable one.
template <class Graph>
std::unique_ptr<Graph> make_graph() {
  if constexpr (std::is_constructible_v<Graph, bool>)
    return std::make_unique<Graph>(/*keep_graph=*/true);
  else
    return std::make_unique<Graph>();
}

template <class Graph>
int64_t kernels_of(Graph& graph) {
  if constexpr (requires { graph.raw_cuda_graph(); }) {
    size_t count = 0;
    cudaGraphGetNodes(graph.raw_cuda_graph(), nullptr, &count);
    std::vector<cudaGraphNode_t> nodes(count);
    cudaGraphGetNodes(graph.raw_cuda_graph(), nodes.data(), &count);
    return std::count_if(nodes.begin(), nodes.end(), [](cudaGraphNode_t node) {
      cudaGraphNodeType type;
      return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel;
    });
  } else {
    return 0;
  }
}

}  // namespace

namespace {

// The stream can be used again, whatever has been recorded.
void leave_capture() {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(at::cuda::getCurrentCUDAStream(), &graph);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
}

}  // namespace

struct RecordedWork::Graph {
  static constexpr int kRunsBefore = 3;
  std::unique_ptr<at::cuda::CUDAGraph> graph = make_graph<at::cuda::CUDAGraph>();
  int runs = 0;
  std::unique_ptr<OwnStream> own;  // for a caller on the default stream, which cannot be recorded

  void run(const std::function<void()>& work);
};
RecordedWork::RecordedWork(const torch::Device& device, std::function<void()> work)
    : work_(std::move(work)) {
  if (on_gpu(device)) graph_ = std::make_unique<Graph>();
}
RecordedWork::~RecordedWork() {
  if (!graph_) return;
  const std::lock_guard lock(listing);
  graph_->graph.reset();
}

void RecordedWork::Graph::run(const std::function<void()>& work) {
  if (runs < kRunsBefore) {
    work();
    ++runs;
    return;
  }
  if (runs++ == kRunsBefore) {
    at::cuda::getCurrentCUDAStream().synchronize();
    give_memory_back();  // a recording allocates memory of its own besides that cached by the first runs
    // Other threads may allocate meanwhile: only this thread is recorded.
    const std::shared_lock nothing_given_back(recording);
    {
      const std::lock_guard lock(listing);
      graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    }
    try {
      work();
      const std::lock_guard lock(listing);
      graph->capture_end();
    } catch (...) {
      leave_capture();
      throw;
    }
  }
  graph->replay();
}

void RecordedWork::run() {
  if (!graph_) {
    work_();
    return;
  }
  const auto callers = at::cuda::getCurrentCUDAStream();
  if (callers != at::cuda::getDefaultCUDAStream()) {
    graph_->run(work_);
    return;
  }
  // Runs after the caller's work and before its next work.
  callers.synchronize();
  if (!graph_->own) graph_->own = std::make_unique<OwnStream>();
  const c10::cuda::CUDAStreamGuard current(graph_->own->get());
  graph_->run(work_);
  graph_->own->get().synchronize();
}

int64_t RecordedWork::kernels() const {
  return graph_ && graph_->runs > Graph::kRunsBefore ? kernels_of(*graph_->graph) : 0;
}

void expect_cuda_streams(int count) {
  if (count > 8) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
}

int64_t peak_device_memory() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  return stats.allocated_bytes[0].peak;
}
void reset_peak_device_memory() {
  c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
}

std::string gpu_name() { return at::cuda::getCurrentDeviceProperties()->name; }

ProfiledPart::ProfiledPart(const torch::Device& device) : on_(on_gpu(device)) {
  if (!on_) return;
  torch::cuda::synchronize();
  cudaProfilerStart();
}
ProfiledPart::~ProfiledPart() {
  if (!on_) return;
  torch::cuda::synchronize();
  cudaProfilerStop();
}

}  // namespace geores
