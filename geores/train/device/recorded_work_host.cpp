// The implementation for a LibTorch without CUDA.
#include "geores/train/device/recorded_work.h"

namespace geores {

struct OwnCudaStream::Guard {};
OwnCudaStream::OwnCudaStream(const torch::Device&) {}
OwnCudaStream::~OwnCudaStream() = default;

void expect_cuda_streams(int) {}

struct RecordedWork::Graph {};
RecordedWork::RecordedWork(const torch::Device&, std::function<void()> work)
    : work_(std::move(work)) {}
RecordedWork::~RecordedWork() = default;
void RecordedWork::run() { work_(); }
int64_t RecordedWork::kernels() const { return 0; }

int64_t peak_device_memory() { return 0; }
void reset_peak_device_memory() {}

std::string gpu_name() { return ""; }

ProfiledPart::ProfiledPart(const torch::Device&) : on_(false) {}
ProfiledPart::~ProfiledPart() = default;

}  // namespace geores
