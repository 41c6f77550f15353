// NumPy's .npy format: one array in one file.
//   "\x93NUMPY", major, minor, header length (2 bytes in version 1.0, 4 in 2.0 and 3.0), header,
//   data; the header is {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, spaces, '\n'
//
//   const NpyArray x = load_npy("x.npy");
//   save_npy("y.npy", {Dtype::f32, {2, 3}, bytes});
//
// Reads versions 1.0, 2.0 and 3.0 with descr <f8 <f4 <f2 <i8 <i4 <i2 |i1 |u1 |b1. An array in
// Fortran order is transposed, so the result is always in C order. Anything else (big-endian data,
// other types, missing or surplus bytes) is refused with one line that names the file:
//   [x.npy] descr '>f4' is big-endian; save it as little-endian, e.g. with x.astype('<f4')
//   [x.npy] shape (2, 3) of <f4 needs 24 bytes of data, the file holds 20
// Writes version 1.0 in C order. The header is padded so that the data begins at a multiple of 64,
// as NumPy does. BF16 does not exist in the format and is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "geores/base/dtype.h"

namespace geores {

struct NpyArray {
  Dtype dtype;
  std::vector<int64_t> shape;    // empty for a scalar
  std::vector<std::byte> bytes;  // C order
};

NpyArray load_npy(const std::filesystem::path& path);

// `where` names the file in errors.
NpyArray parse_npy(std::span<const std::byte> file, std::string_view where);

// An array that stays where the file's bytes are, for example in a MappedFile.
struct NpyView {
  Dtype dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // C order
};

// Refuses an array in Fortran order, which would have to be copied.
NpyView view_npy(std::span<const std::byte> file, std::string_view where);

std::vector<std::byte> serialize_npy(const NpyArray& array);

// The beginning of a file; the array's bytes follow.
std::string npy_header(Dtype dtype, std::span<const int64_t> shape);

// Uses write_file_atomically().
void save_npy(const std::filesystem::path& path, const NpyArray& array);

}  // namespace geores
