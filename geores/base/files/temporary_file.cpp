#include "geores/base/files/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryBegin = ".geores-", kTemporaryEnd = ".tmp";

// The process in ".geores-PROCESS-NUMBER.tmp"; 0 for any other name.
pid_t process_in(std::string_view name) {
  if (!name.starts_with(kTemporaryBegin) || !name.ends_with(kTemporaryEnd)) return 0;
  name.remove_prefix(kTemporaryBegin.size());
  pid_t process = 0;
  const auto [stopped, problem] = std::from_chars(name.data(), name.data() + name.size(), process);
  return problem == std::errc() && *stopped == '-' && process > 0 ? process : 0;
}

bool runs_elsewhere(pid_t process) {
  return process != ::getpid() && (::kill(process, 0) == 0 || errno == EPERM);
}

}  // namespace

int create_temporary_file(const fs::path& folder, fs::path& path) {
  static std::atomic<unsigned> counter = 0;
  while (true) {
    path = folder / fmt::format("{}{}-{}{}", kTemporaryBegin, ::getpid(), counter++, kTemporaryEnd);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;  // EEXIST: a killed process with our id left one
  }
}

void remove_abandoned_files(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto process = process_in(entry.path().filename().native());
    if (process > 0 && !runs_elsewhere(process)) fs::remove(entry.path(), ignored);
  }
}

}  // namespace geores
