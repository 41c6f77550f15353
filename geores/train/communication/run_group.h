// Rendezvous of the processes of a run: a store that rank 0 serves (c10d's TCPStore), or a file of
// --processes (FileStore). Short texts go through the store; a Communicator for tensors is created
// once all processes know the device of the run.
#pragma once

#include <memory>
#include <string>

#include "geores/train/communication/communicator.h"
#include "geores/train/communication/group_member.h"

namespace geores {

class RunGroup {
 public:
  // Waits for all processes, at most `timeout` seconds; LostProcess names the missing ones. Later
  // calls have the same limit.
  RunGroup(const GroupMember& member, double timeout);
  ~RunGroup();
  RunGroup(const RunGroup&) = delete;
  RunGroup& operator=(const RunGroup&) = delete;

  int64_t rank() const { return member_.rank; }
  int64_t size() const { return member_.size; }
  bool is_first() const { return member_.rank == 0; }

  // Broadcasts rank 0's text.
  std::string text_of_first(const std::string& text);

  // Gloo for "cpu"; NCCL for "cuda", on the GPU with this process's local rank. The group must
  // outlive it.
  std::unique_ptr<Communicator> communicator(const std::string& device);

  struct Store;  // of c10d
  Store& store() { return *store_; }

 private:
  GroupMember member_;
  std::unique_ptr<Store> store_;
  int64_t texts_ = 0;
};

// Each in a file of its own; the backend that was not built throws.
std::unique_ptr<Communicator> gloo_communicator(RunGroup::Store& store, const GroupMember& member);
std::unique_ptr<Communicator> nccl_communicator(RunGroup::Store& store, const GroupMember& member);

// One line of an exception of c10d or Gloo, without the source location.
std::string reason_in(const std::exception& error);

}  // namespace geores
