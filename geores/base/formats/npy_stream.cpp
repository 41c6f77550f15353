#include "geores/base/formats/npy_stream.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "geores/base/error.h"
#include "geores/base/formats/npy.h"

namespace geores {
namespace {

void check_stream(bool succeeded, const std::filesystem::path& path) {
  if (!succeeded)
    fail(path.native(), "cannot be written: {}", std::generic_category().message(errno));
}

}  // namespace

NpyStream::NpyStream(const std::filesystem::path& path, Dtype dtype,
                     const std::vector<int64_t>& shape)
    : path_(path) {
  const auto header = npy_header(dtype, shape);
  missing_ = *byte_count(dtype, shape);
  file_.reset(std::fopen(path.c_str(), "wb"));
  check_stream(file_ != nullptr, path_);
  put(std::as_bytes(std::span(header)));
}

void NpyStream::put(std::span<const std::byte> bytes) {
  sum_.add(bytes);
  check_stream(std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size(), path_);
}

void NpyStream::write(std::span<const std::byte> bytes) {
  missing_ -= static_cast<int64_t>(bytes.size());
  require(missing_ >= 0, path_.native(), "gets {} bytes more than its shape has", -missing_);
  put(bytes);
}

void NpyStream::close() {
  require(missing_ == 0, path_.native(), "lacks {} bytes of its shape", missing_);
  check_stream(std::fflush(file_.get()) == 0, path_);
  check_stream(::fsync(::fileno(file_.get())) == 0, path_);
  check_stream(std::fclose(file_.release()) == 0, path_);
  sha256_ = sum_.hex();
}

}  // namespace geores
