#include "geores/base/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "geores/base/error.h"

namespace geores {
namespace {

// The holder's text in the file.
std::string holder_of(int descriptor) {
  char text[200];
  const auto size = ::pread(descriptor, text, sizeof text, 0);
  std::string holder(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  holder.resize(std::min(holder.find('\n'), holder.size()));
  return holder.empty() ? "another process" : holder;
}

void write_holder(int descriptor) {
  char host[100] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const auto text = fmt::format("process {} on {}\n", ::getpid(), host);
  // Only for the message to others: a full disk does not matter.
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const auto written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

// The holder before us removes the file when it ends: then the lock is on a file without a name.
bool is_still_there(int descriptor, const std::filesystem::path& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : path_(folder / "in_use.lock") {
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, path_.native(), "cannot be written: {}",
            std::generic_category().message(errno));
    int outcome = 0;
    do outcome = ::flock(descriptor_, LOCK_EX | LOCK_NB);
    while (outcome != 0 && errno == EINTR);
    if (outcome != 0 && errno == EWOULDBLOCK) {
      const auto holder = holder_of(descriptor_);
      ::close(descriptor_);
      fail(folder.native(), "is in use by {}: wait until it has ended, or stop it", holder);
    }
    works_ = outcome == 0;
    if (!works_ || is_still_there(descriptor_, path_)) break;
    ::close(descriptor_);
  }
  if (works_) write_holder(descriptor_);
}

FolderLock::~FolderLock() {
  if (works_) ::unlink(path_.c_str());  // while it is still locked: no other process owns the file
  ::close(descriptor_);
}

}  // namespace geores
