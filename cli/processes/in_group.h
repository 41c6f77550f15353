// Runs a command in one process or in a group of several: those that torchrun, Slurm or Open MPI have
// started, or those that --processes starts. When another process of the group is lost, the command
// ends with exit code 4 and one line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "geores/train/communication/run_group.h"

namespace geores::cli {

struct GroupFlags {
  int64_t processes = 1;
  double timeout = 60;
};

void add_group_flags(CLI::App& command, GroupFlags& flags);

// A command's group.
class CommandGroup {
 public:
  explicit CommandGroup(RunGroup* group) : group_(group) {}

  bool is_first() const { return group_ == nullptr || group_->is_first(); }
  int64_t size() const { return group_ == nullptr ? 1 : group_->size(); }
  std::string text_of_first(const std::string& text) {
    return group_ == nullptr ? text : group_->text_of_first(text);
  }

  // For tensors on "cpu" or "cuda"; valid as long as this object.
  const Communicator& communicator(const std::string& device) {
    if (group_ == nullptr) return one_process();
    communicator_ = group_->communicator(device);
    return *communicator_;
  }

 private:
  RunGroup* group_;
  std::unique_ptr<Communicator> communicator_;
};

// `work` returns the exit code.
int in_group(const GroupFlags& flags, const std::function<int(CommandGroup&)>& work);

}  // namespace geores::cli
