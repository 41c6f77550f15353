#include "geores/text/mapped_ids.h"

#include <bit>

#include "geores/base/error.h"

namespace geores {

static_assert(std::endian::native == std::endian::little, "ids are read in the file's byte order");

MappedIds::MappedIds(const std::filesystem::path& path) : path_(path), file_(path) {
  const auto where = path.string();
  const auto size = file_.bytes().size();
  require(size > 0, where, "is empty");
  require(size % sizeof(Id) == 0, where,
          "has {} bytes, an odd number: ids are uint16, two bytes each", size);
  ids_ = {reinterpret_cast<const Id*>(file_.bytes().data()), size / sizeof(Id)};
}

void MappedIds::require_unchanged() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(path_, error);
  require(!error && size == ids_.size_bytes(), path_.string(),
          "has changed while it was in use: it had {} bytes and now has {}", ids_.size_bytes(),
          error ? 0 : size);
}

}  // namespace geores
