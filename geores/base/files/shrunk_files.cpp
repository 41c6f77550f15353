#include "geores/base/files/shrunk_files.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "geores/base/printable.h"

namespace geores {
namespace {

// A signal handler may not take a lock, so it walks a list from which nothing is ever removed: what
// was forgotten is free for the next file.
struct WatchedFile {
  std::atomic<uintptr_t> begin = 0, end = 0;  // 0: free
  std::string last_words = {};
  WatchedFile* next = nullptr;
};

std::atomic<WatchedFile*> watched = nullptr;
struct sigaction former;

const WatchedFile* file_at(uintptr_t address) {
  for (const auto* file = watched.load(); file != nullptr; file = file->next)
    if (address >= file->begin && address < file->end) return file;
  return nullptr;
}

extern "C" void name_shrunk_file(int number, siginfo_t* info, void* context) {
  // A positive code is a fault; others are signals that a process has sent.
  const auto* file =
      info->si_code > 0 ? file_at(reinterpret_cast<uintptr_t>(info->si_addr)) : nullptr;
  if (file != nullptr) {
    const auto& text = file->last_words;
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(1);
  }
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    former.sa_sigaction(number, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(number);
  } else {
    ::sigaction(number, &former, nullptr);
    ::raise(number);  // takes effect when this returns
  }
}

void handle_faults() {
  struct sigaction ours {};
  ours.sa_sigaction = name_shrunk_file;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  ::sigaction(SIGBUS, &ours, &former);
}

std::mutex& list_lock() {
  static std::mutex lock;
  return lock;
}

WatchedFile* entry_at(uintptr_t begin) {
  auto* file = watched.load();
  while (file != nullptr && file->begin != begin) file = file->next;
  return file;
}

}  // namespace

void watch_mapped_file(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::lock_guard guard(list_lock());
  if (watched.load() == nullptr) handle_faults();
  auto* file = entry_at(0);
  const bool is_new = file == nullptr;
  if (is_new) file = new WatchedFile;
  file->last_words =
      "geores: [" + printable(path.native(), 4000) + "] has become shorter while it was in use\n";
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  file->end = begin + bytes.size();
  file->begin = begin;
  if (!is_new) return;
  file->next = watched.load();
  watched = file;
}

void forget_mapped_file(std::span<const std::byte> bytes) {
  const std::lock_guard guard(list_lock());
  auto* file = entry_at(reinterpret_cast<uintptr_t>(bytes.data()));
  if (file == nullptr) return;
  file->end = 0;
  file->begin = 0;
}

}  // namespace geores
