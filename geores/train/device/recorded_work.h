// Work on a GPU that is recorded once and then replayed as one CUDA graph: a training step has
// hundreds of small kernels, and launching them one by one costs more than running them. On a CPU,
// or with a LibTorch without CUDA, the work simply runs each time.
//
// The recorded work must be the same every time: it reads no value back, takes no data from the
// host, and uses only tensors that keep their addresses.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "geores/ops/torch.h"

namespace geores {

// While it lives, this thread's work goes to its own CUDA stream: recording requires one, and
// concurrent runs do not wait for each other. No-op for a CPU.
class OwnCudaStream {
 public:
  explicit OwnCudaStream(const torch::Device& device);
  ~OwnCudaStream();
  OwnCudaStream(const OwnCudaStream&) = delete;
  OwnCudaStream& operator=(const OwnCudaStream&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

// A GPU runs 8 CUDA streams concurrently by default, 32 if configured before its first use. Call
// this first where there will be more than 8.
void expect_cuda_streams(int count);

class RecordedWork {
 public:
  RecordedWork(const torch::Device& device, std::function<void()> work);
  ~RecordedWork();

  // The first runs execute directly (libraries select their algorithms then), the next one is
  // recorded. The default stream cannot be recorded: a caller without an OwnCudaStream waits here
  // until the work is done.
  void run();

  // The number of kernels in the recording; 0 without a recording or where it is unknown.
  int64_t kernels() const;

 private:
  struct Graph;
  std::function<void()> work_;
  std::unique_ptr<Graph> graph_;
};

// Peak memory of tensors on the GPU in bytes since the last reset; 0 without a GPU.
int64_t peak_device_memory();
void reset_peak_device_memory();

// "" without a GPU.
std::string gpu_name();

// While it lives, a profiler that waits for cudaProfilerStart records the launches.
class ProfiledPart {
 public:
  explicit ProfiledPart(const torch::Device& device);
  ~ProfiledPart();
  ProfiledPart(const ProfiledPart&) = delete;
  ProfiledPart& operator=(const ProfiledPart&) = delete;

 private:
  bool on_;
};

}  // namespace geores
