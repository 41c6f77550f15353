#include "geores/train/communication/local_processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kPatience = 5s;   // time that this process has to end after a child has failed
constexpr auto kLastWords = 1s;  // time that a child has to end after its group has broken
constexpr const char* kLost = "lost others: ";

fs::path words_file(const std::string& folder, int64_t rank) {
  return fs::path(folder) / ("last_words." + std::to_string(rank));
}

std::string temporary_folder() {
  auto name = (fs::temp_directory_path() / "geores-XXXXXX").string();
  require(mkdtemp(name.data()) != nullptr, "train", "cannot create {}: {}", name,
          std::strerror(errno));
  return name;
}

// The argument list of this process, as the kernel keeps it.
std::vector<std::string> own_arguments() {
  const auto text = read_text_file("/proc/self/cmdline");
  std::vector<std::string> all;
  for (size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\0', begin), text.size());
    all.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

// This process's environment with some variables replaced.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& changed) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    bool kept = true;
    for (const auto& [name, value] : changed) kept = kept && !entry.starts_with(name + "=");
    if (kept) all.push_back(entry);
  }
  for (const auto& [name, value] : changed) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

LocalProcesses::LocalProcesses(int64_t size, int threads,
                               std::function<void(const std::string&)> give_up)
    : size_(size), give_up_(std::move(give_up)), folder_(temporary_folder()) {
  try {
    for (int64_t rank = 1; rank < size; ++rank) start(rank, threads);
  } catch (...) {
    end();
    throw;
  }
  watcher_ = std::thread([this] { watch(); });
}

void LocalProcesses::start(int64_t rank, int threads) {
  auto arguments = own_arguments();
  auto environment = environment_with({{kLocalFolder, folder_},
                                       {kLocalRank, std::to_string(rank)},
                                       {kLocalSize, std::to_string(size_)},
                                       {"OMP_NUM_THREADS", std::to_string(threads)}});
  const auto argv = pointers_to(arguments), envp = pointers_to(environment);
  const auto child = fork();
  require(child >= 0, "train", "cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    // A terminal's signal reaches all processes; children take the stop from their parent instead.
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  children_.push_back(child);
  ++left_;
}

GroupMember LocalProcesses::member() const {
  GroupMember member;
  member.size = size_;
  member.folder = folder_;
  return member;
}

void LocalProcesses::report(pid_t child, int status) {
  int64_t rank = 0;
  for (size_t i = 0; i < children_.size(); ++i)
    if (children_[i] == child) {
      children_[i] = 0;
      rank = static_cast<int64_t>(i) + 1;
    }
  if (rank == 0) return;  // not ours
  --left_;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::string words;
  bool lost = false;
  if (WIFSIGNALED(status)) {
    words = fmt::format("rank {} was ended by signal {} ({})", rank, WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
  } else if (std::error_code none; fs::exists(words_file(folder_, rank), none)) {
    words = read_text_file(words_file(folder_, rank));
    lost = words.starts_with(kLost);
    if (lost) words = words.substr(std::strlen(kLost));
    words = fmt::format("rank {}: {}", rank, words);
  } else {
    words = fmt::format("rank {} has ended with exit code {}", rank, WEXITSTATUS(status));
  }
  // A process that has only lost another one does not know the cause.
  if (!failure_.empty() && !(from_group_ && !lost)) return;
  failure_ = words;
  from_group_ = lost;
}

void LocalProcesses::watch() {
  std::unique_lock lock(mutex_);
  std::chrono::steady_clock::time_point failed;
  while (!over_) {
    int status = 0;
    for (pid_t child; left_ > 0 && (child = waitpid(-1, &status, WNOHANG)) > 0;) {
      const bool first = failure_.empty();
      report(child, status);
      if (first && !failure_.empty()) failed = std::chrono::steady_clock::now();
    }
    changed_.notify_all();
    if (!failure_.empty() && std::chrono::steady_clock::now() > failed + kPatience) {
      const auto words = failure_;
      lock.unlock();
      give_up_(words);
      return;
    }
    changed_.wait_for(lock, 20ms, [this] { return over_; });
  }
}

std::string LocalProcesses::failure() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLastWords, [this] { return !failure_.empty() && !from_group_; });
  return failure_;
}

void LocalProcesses::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [this] { return left_ == 0; });
}

void LocalProcesses::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable() && watcher_.get_id() != std::this_thread::get_id()) watcher_.join();
  for (auto& child : children_) {
    if (child == 0) continue;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    child = 0;
  }
  remove_group_folder(folder_);
}

LocalProcesses::~LocalProcesses() { end(); }

// Without remove_all: that of LibTorch 2.11's wheels, which the linker may find first, crashes.
void remove_group_folder(const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) files.push_back(entry.path());
  for (const auto& file : files) fs::remove(file, ignored);
  fs::remove(folder, ignored);
}

void leave_last_words(const GroupMember& member, const std::string& words, bool lost_others) {
  write_file_atomically(words_file(member.folder, member.rank).string(),
                        (lost_others ? kLost : "") + words);
}

}  // namespace geores
