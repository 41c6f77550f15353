// Work on a GPU that is recorded once and then replayed as one CUDA graph: a training step is
// hundreds of small kernels, and launching them one by one costs more than running them. On a CPU,
// or with a LibTorch without CUDA, the work is simply done each time.
//
// What is recorded must be the same every time: no value read back, no data from the host, only
// tensors that stay where they are.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "geores/ops/torch.h"

namespace geores {

// While it lives, this thread's work on the device goes to a CUDA stream of its own: recording
// needs one, and runs side by side do not wait for each other. No-op for a CPU.
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

// A GPU runs the work of 8 CUDA streams side by side, or of 32 if it is told so before it is first
// used. Call this before, where there will be more than 8.
void expect_cuda_streams(int count);

class RecordedWork {
 public:
  RecordedWork(const torch::Device& device, std::function<void()> work);
  ~RecordedWork();

  // The first runs are done as they are (libraries choose their algorithms then), the next one is
  // recorded. The default stream cannot be: a caller without an OwnCudaStream waits here until it is done.
  void run();

  // Kernels of the recording; 0 when there is none, or no way to know.
  int64_t kernels() const;

 private:
  struct Graph;
  std::function<void()> work_;
  std::unique_ptr<Graph> graph_;
};

// Most bytes that tensors on the GPU took up at once since the last reset; 0 without one.
int64_t peak_device_memory();
void reset_peak_device_memory();

// "" without one.
std::string gpu_name();

// While it lives, a profiler that waits for cudaProfilerStart sees what is launched.
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
