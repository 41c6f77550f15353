// For a LibTorch without CUDA.
#include "geores/train/recorded_work.h"

namespace geores {

struct DeviceStream::Guard {};
DeviceStream::DeviceStream(const torch::Device&) {}
DeviceStream::~DeviceStream() = default;

struct RecordedWork::Graph {};
RecordedWork::RecordedWork(const torch::Device&, std::function<void()> work)
    : work_(std::move(work)) {}
RecordedWork::~RecordedWork() = default;
void RecordedWork::run() { work_(); }

}  // namespace geores
