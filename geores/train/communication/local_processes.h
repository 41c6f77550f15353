// The other processes of a run on this machine (`--processes N`): the same program with the same
// arguments, started N − 1 times. They rendezvous through a file in a temporary folder.
//
// A child that fails writes its error to that folder; this process prints it, so that the user
// reads one line. This process notices a failed child at its next collective; if it does not end
// soon, the watcher ends it. Destroying this object ends all children.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "geores/train/communication/group_member.h"

namespace geores {

class LocalProcesses {
 public:
  // Each process gets `threads` threads (OMP_NUM_THREADS). If this process is still running some
  // seconds after a child has failed, `give_up` is called from another thread with the reason.
  LocalProcesses(int64_t size, int threads, std::function<void(const std::string&)> give_up);
  ~LocalProcesses();
  LocalProcesses(const LocalProcesses&) = delete;
  LocalProcesses& operator=(const LocalProcesses&) = delete;

  GroupMember member() const;  // of this process: rank 0

  // Waits for the children to exit.
  void finish();

  // Why a child has ended: "rank 1 was ended by signal 9 (Killed)". Waits briefly for one to end;
  // empty if none has.
  std::string failure();

  // Ends the children, and removes the folder.
  void end();

 private:
  void start(int64_t rank, int threads);
  void watch();
  void report(pid_t child, int status);

  int64_t size_;
  std::function<void(const std::string&)> give_up_;
  std::string folder_;
  std::vector<pid_t> children_;  // by rank − 1; 0: has ended
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;
  bool from_group_ = false;  // failure_ only says that other processes were lost
  bool over_ = false;
  int64_t left_ = 0;  // children that are running
  std::thread watcher_;
};

void remove_group_folder(const std::string& folder);

// Writes the error of a child of another LocalProcesses.
void leave_last_words(const GroupMember& member, const std::string& words, bool lost_others);

}  // namespace geores
