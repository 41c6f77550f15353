// The other processes of a run on this machine (`--processes N`): the same program with the same
// arguments, started N − 1 times. They meet over a file in a temporary folder.
//
// A child that fails leaves its last words in that folder; this process tells them, so that a person
// reads one line. When a child was killed or has failed, this process notices at its next collective;
// if it does not end by itself soon, the watcher ends it. When this object goes, so do all children.
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
  // Each process gets `threads` threads (OMP_NUM_THREADS). When a child has failed and this process is
  // still there some seconds later, `give_up` is called from another thread with what happened.
  LocalProcesses(int64_t size, int threads, std::function<void(const std::string&)> give_up);
  ~LocalProcesses();
  LocalProcesses(const LocalProcesses&) = delete;
  LocalProcesses& operator=(const LocalProcesses&) = delete;

  GroupMember member() const;  // of this process: rank 0

  // Waits for the children, which have nothing left to do.
  void finish();

  // Why a child has ended: "rank 1 was ended by signal 9 (Killed)". Waits a moment for one to do so;
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
  bool from_group_ = false;  // failure_ is only that others were lost
  bool over_ = false;
  int64_t left_ = 0;  // children that run
  std::thread watcher_;
};

void remove_group_folder(const std::string& folder);

// In a child of another LocalProcesses: leaves its last words.
void leave_last_words(const GroupMember& member, const std::string& words, bool lost_others);

}  // namespace geores
