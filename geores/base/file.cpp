#include "geores/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include "geores/base/error.h"
#include "geores/base/files/temporary_file.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// To be called right after a system call: the reason of a failure is in errno.
void check(bool succeeded, const fs::path& path, std::string_view complaint) {
  if (!succeeded) fail(path.native(), "{}: {}", complaint, std::generic_category().message(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Removes a file at the end of the scope, unless it was renamed.
struct Removal {
  const fs::path& path;
  bool needed = true;
  ~Removal() {
    if (needed) ::unlink(path.c_str());
  }
};

template <class Container>
Container read_whole(const fs::path& path) {
  constexpr auto complaint = "cannot be read";
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  check(file.is_open(), path, complaint);
  struct stat status {};
  check(::fstat(file.get(), &status) == 0, path, complaint);
  require(!S_ISDIR(status.st_mode), path.native(), "{}: it is a directory", complaint);
  require(S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode), path.native(),
          "{}: it is neither a regular file nor a pipe", complaint);

  Container bytes;
  const auto resize = [&](std::size_t size) {
    try {
      bytes.resize(size);
    } catch (const std::exception&) {  // std::bad_alloc or std::length_error
      fail(path.native(), "{}: {} bytes do not fit in memory", complaint, size);
    }
  };
  // Reads one byte more than expected, so that the read that finds the end needs no larger buffer.
  resize(static_cast<std::size_t>(status.st_size) + 1);
  std::size_t filled = 0;
  while (true) {
    if (filled == bytes.size()) resize(2 * bytes.size());
    const auto count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, path, complaint);
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

std::vector<std::byte> read_file(const fs::path& path) {
  return read_whole<std::vector<std::byte>>(path);
}

std::string read_text_file(const fs::path& path) { return read_whole<std::string>(path); }

void write_file_atomically(const fs::path& path, const ByteSource& content,
                           const std::function<Amendment()>& amendment) {
  constexpr auto complaint = "cannot be written";
  struct stat old {};
  const bool replaces = ::stat(path.c_str(), &old) == 0;
  require(!replaces || !S_ISDIR(old.st_mode), path.native(), "{}: it is a directory", complaint);
  require(!replaces || S_ISREG(old.st_mode), path.native(), "{}: it is not a regular file",
          complaint);
  std::error_code unresolved;
  const fs::path target = replaces ? fs::canonical(path, unresolved) : path;
  require(!unresolved, path.native(), "{}: {}", complaint, unresolved.message());

  // The folder is opened first: steps that can fail should fail before anything has changed.
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const Descriptor open_folder(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  check(open_folder.is_open(), path, complaint);

  fs::path temporary;
  const Descriptor file(create_temporary_file(folder, temporary));
  check(file.is_open(), path, complaint);
  Removal removal{temporary};
  if (replaces) check(::fchmod(file.get(), old.st_mode & 07777) == 0, path, complaint);
  const ByteSink write = [&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto count = ::write(file.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      check(count >= 0, path, complaint);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  };
  content(write);
  const auto [offset, bytes] = amendment ? amendment() : Amendment();
  check(::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) >= 0, path, complaint);
  write(std::as_bytes(std::span(bytes)));
  check(::fsync(file.get()) == 0, path, complaint);
  check(::rename(temporary.c_str(), target.c_str()) == 0, path, complaint);
  removal.needed = false;

  // EINVAL: this file system has nothing to flush for a folder.
  const bool flushed = ::fsync(open_folder.get()) == 0 || errno == EINVAL;
  check(flushed, path, "is written, but its folder cannot be flushed");
}

void write_file_atomically(const fs::path& path, const ByteSource& content) {
  write_file_atomically(path, content, {});
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, [&](const ByteSink& sink) { sink(bytes); });
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace geores
