#include "geores/text/mapped_ids.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "geores/base/error.h"

namespace geores {

static_assert(std::endian::native == std::endian::little, "ids are read as they lie in the file");

MappedIds::MappedIds(const std::filesystem::path& path) : path_(path) {
  const auto where = path.string();
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  require(!error, where, "cannot be read: {}", error.message());
  require(size > 0, where, "is empty");
  require(size % sizeof(Id) == 0, where,
          "has {} bytes, an odd number: ids are uint16, two bytes each", size);
  const int file = ::open(where.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, where, "cannot be opened: {}", std::strerror(errno));
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  const auto problem = errno;
  ::close(file);
  require(start != MAP_FAILED, where, "cannot be mapped: {}", std::strerror(problem));
  ids_ = {static_cast<const Id*>(start), size / sizeof(Id)};
}

MappedIds::~MappedIds() { ::munmap(const_cast<Id*>(ids_.data()), ids_.size_bytes()); }

void MappedIds::require_unchanged() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(path_, error);
  require(!error && size == ids_.size_bytes(), path_.string(),
          "has changed while it was in use: it had {} bytes and now has {}", ids_.size_bytes(),
          error ? 0 : size);
}

}  // namespace geores
