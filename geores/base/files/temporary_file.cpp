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
#include <vector>

#include "geores/base/files/remove_folder.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryBegin = ".geores-", kTemporaryEnd = ".tmp",
                           kPartial = ".partial-";

// The process in ".geores-PROCESS-NUMBER.tmp" or "TARGET.partial-PROCESS": what stands between `begin`
// and `end`. 0 for any other name.
pid_t process_in(std::string_view name, std::string_view begin, std::string_view end) {
  if (!name.starts_with(begin)) return 0;
  name.remove_prefix(begin.size());
  pid_t process = 0;
  const auto [stopped, problem] = std::from_chars(name.data(), name.data() + name.size(), process);
  const std::string_view rest(stopped, name.data() + name.size());
  return problem == std::errc() && rest.starts_with(end) && process > 0 ? process : 0;
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
    const auto name = entry.path().filename().string();
    const auto process = name.ends_with(kTemporaryEnd) ? process_in(name, kTemporaryBegin, "-") : 0;
    if (process > 0 && !runs_elsewhere(process)) fs::remove(entry.path(), ignored);
  }
}

fs::path partial_folder(const fs::path& target) {
  auto partial = target;
  return partial += fmt::format("{}{}", kPartial, ::getpid());
}

void remove_abandoned_folders(const fs::path& target) {
  const auto begin = target.filename().native() + std::string(kPartial);
  std::vector<fs::path> abandoned;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(
           target.has_parent_path() ? target.parent_path() : fs::path("."), ignored)) {
    const auto name = entry.path().filename().string();
    const auto process = process_in(name, begin, "");
    if (process > 0 && name == begin + std::to_string(process) && !runs_elsewhere(process))
      abandoned.push_back(entry.path());
  }
  for (const auto& folder : abandoned) remove_folder(folder);
}

}  // namespace geores
