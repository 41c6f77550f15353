// How the processes of a run find each other: through a store that rank 0 keeps (c10d's TCPStore), or
// a file of --processes (FileStore). Short texts go through the store; a Communicator for tensors is
// made when everybody knows which device the run computes on.
#pragma once

#include <memory>
#include <string>

#include "geores/train/communication/communicator.h"
#include "geores/train/communication/group_member.h"

namespace geores {

class RunGroup {
 public:
  // Waits until all processes are there, at most `timeout` seconds. LostProcess names those that are
  // not. Later calls have the same limit.
  RunGroup(const GroupMember& member, double timeout);
  ~RunGroup();
  RunGroup(const RunGroup&) = delete;
  RunGroup& operator=(const RunGroup&) = delete;

  int64_t rank() const { return member_.rank; }
  int64_t size() const { return member_.size; }
  bool is_first() const { return member_.rank == 0; }

  // Rank 0's text.
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

// In a file each; the one that was not built refuses.
std::unique_ptr<Communicator> gloo_communicator(RunGroup::Store& store, const GroupMember& member);
std::unique_ptr<Communicator> nccl_communicator(RunGroup::Store& store, const GroupMember& member);

// One line of an exception of c10d or Gloo, without its place in their sources.
std::string reason_in(const std::exception& error);

}  // namespace geores
