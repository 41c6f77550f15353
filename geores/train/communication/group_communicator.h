// A communicator on a process group of c10d. ProcessGroupGloo and ProcessGroupNCCL share the calls
// used here, but no base class that is the same in all versions of LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "geores/base/error.h"
#include "geores/train/communication/group_store.h"

namespace geores {

template <class Group>
class GroupCommunicator : public Communicator {
 public:
  GroupCommunicator(RunGroup::Store& store, c10::intrusive_ptr<Group> group)
      : Communicator(store.rank, store.size), store_(store), group_(std::move(group)) {}

  bool is_group() const override { return true; }

  void sum(Tensor& values) const override {
    if (values.numel() == 0) return;
    call([&] {
      std::vector<Tensor> all = {values};
      return group_->allreduce(all);
    });
  }

  void broadcast(Tensor& values) const override {
    if (values.numel() == 0) return;
    call([&] {
      std::vector<Tensor> all = {values};
      return group_->broadcast(all);
    });
  }

  void barrier() const override {
    call([&] { return group_->barrier(); });
  }

  void same(const nlohmann::json& facts) const override {
    require_same_facts(store_, fmt::format("same/{}", same_++), facts);
  }

 protected:
  // Starts a collective and waits for it: on a CPU until it has ended; on a GPU only the CUDA
  // stream waits, and `started` can check on it later.
  template <class Start>
  void call(Start&& start) const {
    try {
      const auto work = start();
      work->wait();
      started(work);
    } catch (const std::exception& error) {
      lost(reason_in(error));
    }
  }

  [[noreturn]] void lost(const std::string& reason) const {
    throw LostProcess(
        fmt::format("[train] rank {} of {} has lost another process: {}", rank(), size(), reason));
  }

  virtual void started(const decltype(std::declval<Group>().barrier())&) const {}

 private:
  RunGroup::Store& store_;
  c10::intrusive_ptr<Group> group_;
  mutable int64_t same_ = 0;
};

}  // namespace geores
