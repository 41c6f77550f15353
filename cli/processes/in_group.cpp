#include "cli/processes/in_group.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/terminal/output.h"
#include "cli/terminal/process.h"
#include "geores/base/error.h"
#include "geores/train/communication/local_processes.h"

namespace geores::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kLostProcess = 4;  // exit code

// A broken group is not taken apart: its library's threads may wait for processes that are gone.
[[noreturn]] void end_at_once(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

[[noreturn]] void end_with(const std::string& words) {
  say("geores: {}\n", words);
  end_at_once(kLostProcess);
}

int work_in(const GroupMember& member, double timeout,
            const std::function<int(CommandGroup&)>& work) {
  RunGroup group(member, timeout);
  CommandGroup command(&group);
  return work(command);
}

// In a process that another one's --processes has started. Its parent prints its messages; where
// the parent is gone, rank 1 does.
int as_child(const GroupMember& member, double timeout,
             const std::function<int(CommandGroup&)>& work) {
  const auto parent = getppid();
  const auto parent_is_there = [&] {
    std::error_code ignored;
    return getppid() == parent && std::filesystem::exists(member.folder, ignored);
  };
  const auto last = [&](const std::string& words, bool lost) {
    try {
      if (parent_is_there()) leave_last_words(member, words, lost);
    } catch (const Error&) {
      // The parent has just removed the folder.
    }
    // A process that is killed closes its connections a moment before it is gone.
    for (int i = 0; lost && i < 50 && parent_is_there(); ++i) std::this_thread::sleep_for(10ms);
    if (!parent_is_there() && member.rank == 1) {
      remove_group_folder(member.folder);
      end_with("rank 0 has ended: " + words);
    }
    end_at_once(kLostProcess);
  };
  try {
    work_in(member, timeout, work);  // rank 0 has the exit code
    return 0;
  } catch (const LostProcess& error) {
    last(error.what(), true);
  } catch (const std::exception& error) {
    last(last_words(error), false);
  }
  return kLostProcess;
}

int as_parent(const GroupFlags& flags, const std::function<int(CommandGroup&)>& work) {
  const auto threads = std::max<int>(1, at::get_num_threads() / static_cast<int>(flags.processes));
  at::set_num_threads(threads);
  LocalProcesses* started = nullptr;
  const auto give_up = [&](const std::string& words) {
    started->end();
    end_with(words);
  };
  LocalProcesses children(flags.processes, threads, give_up);
  started = &children;
  try {
    const auto code = work_in(children.member(), flags.timeout, work);
    children.finish();
    return code;
  } catch (const LostProcess& error) {
    const auto why = children.failure();
    children.end();
    end_with(why.empty() ? error.what() : why);
  }
}

}  // namespace

void add_group_flags(CLI::App& command, GroupFlags& flags) {
  command
      .add_option("--processes", flags.processes,
                  "train in so many processes on this machine, each with its share of the cores or "
                  "its own GPU; torchrun's, Slurm's and Open MPI's variables do the same for "
                  "several machines (docs/guides/several_machines.md)")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--distributed-timeout", flags.timeout,
                  "seconds after which a process that does not answer is lost")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e6));
}

int in_group(const GroupFlags& flags, const std::function<int(CommandGroup&)>& work) {
  const auto member = group_member();
  if (member && !member->folder.empty()) return as_child(*member, flags.timeout, work);
  require(!member || flags.processes == 1, "train",
          "--processes {} starts processes of its own, but this one is rank {} of {} already",
          flags.processes, member ? member->rank : 0, member ? member->size : 1);
  if (flags.processes > 1) return as_parent(flags, work);
  if (!member) {
    CommandGroup alone(nullptr);
    return work(alone);
  }
  try {
    return work_in(*member, flags.timeout, work);
  } catch (const LostProcess& error) {
    end_with(error.what());
  }
}

}  // namespace geores::cli
