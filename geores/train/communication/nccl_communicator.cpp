// For GPUs, one for each process. Compiled to a refusal where LibTorch has no CUDA or nccl.h was not
// found (CMakeLists.txt).
#include "geores/train/communication/run_group.h"

#ifdef GEORES_NCCL

#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL  // the header is empty without it
#endif

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "geores/train/communication/group_communicator.h"

namespace geores {
namespace {

using c10d::ProcessGroupNCCL;

class Nccl final : public GroupCommunicator<ProcessGroupNCCL> {
 public:
  Nccl(RunGroup::Store& store, c10::intrusive_ptr<ProcessGroupNCCL> group, torch::Device device)
      : GroupCommunicator(store, std::move(group)), device_(device), timeout_(store.timeout) {}

  torch::Device device() const override { return device_; }

  // The host launches collectives without waiting. Reading a number back would wait without a
  // timeout, so the host waits here first, with one.
  void settle() const override {
    if (!last_) return;
    const auto end = std::chrono::steady_clock::now() + timeout_;
    try {
      while (!last_->isCompleted()) {
        if (std::chrono::steady_clock::now() > end)
          lost(fmt::format("a sum has not ended within {} s",
                           static_cast<double>(timeout_.count()) / 1000));
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      if (const auto problem = last_->exception()) std::rethrow_exception(problem);
    } catch (const LostProcess&) {
      throw;
    } catch (const std::exception& error) {
      lost(reason_in(error));
    }
    last_.reset();
  }

 private:
  using Work = decltype(std::declval<ProcessGroupNCCL>().barrier());
  void started(const Work& work) const override { last_ = work; }

  torch::Device device_;
  std::chrono::milliseconds timeout_;
  mutable Work last_;
};

// NCCL reports two processes on one GPU in many lines; this check reports it in one.
void require_own_gpu(RunGroup::Store& store, const GroupMember& member) {
  const auto there = torch::cuda::device_count();
  char machine[256] = {};
  gethostname(machine, sizeof machine - 1);
  std::string gpu = "none";
  if (member.local_rank < static_cast<int64_t>(there)) {
    const auto& facts = *at::cuda::getDeviceProperties(static_cast<int>(member.local_rank));
    gpu = fmt::format("{:x}:{:x}:{:x}", facts.pciDomainID, facts.pciBusID, facts.pciDeviceID);
  }
  const auto verdict = store.judged(
      "gpu", fmt::format("{} {} {}", machine, gpu, there),
      [&](const std::vector<std::string>& all) -> std::string {
        for (size_t rank = 0; rank < all.size(); ++rank) {
          if (all[rank].find(" none ") != std::string::npos)
            return fmt::format("rank {} has no GPU of its own: {} has {}", rank,
                               all[rank].substr(0, all[rank].find(' ')),
                               all[rank].substr(all[rank].rfind(' ') + 1));
          for (size_t other = 0; other < rank; ++other)
            if (all[rank] == all[other])
              return fmt::format(
                  "ranks {} and {} would share a GPU; start one process for each GPU", other, rank);
        }
        return "";
      });
  require(verdict.empty(), "train", "{}", verdict);
}

}  // namespace

std::unique_ptr<Communicator> nccl_communicator(RunGroup::Store& store, const GroupMember& member) {
  require_own_gpu(store, member);
  // A lost process raises our exception (settle); LibTorch's watchdog thread must not end this
  // process. A value that the user has set is kept.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/0);
  setenv("TORCH_NCCL_ENABLE_MONITORING", "0", /*overwrite=*/0);
  const auto index = static_cast<c10::DeviceIndex>(member.local_rank);
  c10::cuda::set_device(index);
  try {
    auto options = ProcessGroupNCCL::Options::create();
    options->timeout = store.timeout;
    auto group = c10::make_intrusive<ProcessGroupNCCL>(store.store, static_cast<int>(member.rank),
                                                       static_cast<int>(member.size), options);
    return std::make_unique<Nccl>(store, std::move(group), torch::Device(torch::kCUDA, index));
  } catch (const std::exception& error) {
    throw LostProcess(fmt::format("[train] rank {} of {} cannot connect to the others: {}",
                                  member.rank, member.size, reason_in(error)));
  }
}

}  // namespace geores

#else

#include "geores/base/error.h"

namespace geores {

std::unique_ptr<Communicator> nccl_communicator(RunGroup::Store&, const GroupMember&) {
  fail("train",
       "this program was built without NCCL (nccl.h and a LibTorch with CUDA): it trains on one "
       "GPU only");
}

}  // namespace geores

#endif
