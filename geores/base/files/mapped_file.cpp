#include "geores/base/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "geores/base/error.h"
#include "geores/base/files/shrunk_files.h"

namespace geores {

MappedFile::MappedFile(const std::filesystem::path& path) {
  constexpr std::string_view complaint = "cannot be read";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  const bool known = file >= 0 && ::fstat(file, &status) == 0;
  const bool regular = known && S_ISREG(status.st_mode);
  const auto size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  void* start = nullptr;  // an empty file cannot be mapped and needs no mapping
  if (size > 0) start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  const auto reason = std::generic_category().message(errno);
  if (file >= 0) ::close(file);  // the mapping stays
  require(known && start != MAP_FAILED, path.native(), "{}: {}", complaint, reason);
  require(regular, path.native(), "{}: it is not a regular file", complaint);
  bytes_ = {static_cast<const std::byte*>(start), size};
  if (size > 0) watch_mapped_file(bytes_, path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mapped_file(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace geores
