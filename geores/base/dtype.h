// Element types of arrays on disk, and the size of an array of them.
//   dtype_name(Dtype::f32) -> "F32"      dtype_size(Dtype::f32) -> 4
// Names are those of the safetensors format; i8 is the 8-bit integer. All data is little-endian.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace geores {

static_assert(std::endian::native == std::endian::little,
              "arrays are stored in their memory layout");

// In the order in which a safetensors file lists them: with the widest types first, every tensor is
// aligned.
enum class Dtype { i64, f64, f32, i32, bf16, f16, i16, i8, u8, boolean };

struct DtypeInfo {
  Dtype dtype;
  std::string_view name;
  int64_t size;  // bytes per element
};

inline constexpr DtypeInfo dtypes[] = {{Dtype::i64, "I64", 8},   {Dtype::f64, "F64", 8},
                                       {Dtype::f32, "F32", 4},   {Dtype::i32, "I32", 4},
                                       {Dtype::bf16, "BF16", 2}, {Dtype::f16, "F16", 2},
                                       {Dtype::i16, "I16", 2},   {Dtype::i8, "I8", 1},
                                       {Dtype::u8, "U8", 1},     {Dtype::boolean, "BOOL", 1}};

constexpr std::string_view dtype_name(Dtype dtype) {
  return dtypes[static_cast<std::size_t>(dtype)].name;
}

constexpr int64_t dtype_size(Dtype dtype) { return dtypes[static_cast<std::size_t>(dtype)].size; }

constexpr std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const auto& info : dtypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

// The bytes of an array; a shape without dimensions is a scalar. No value if a dimension is
// negative, or if the product of the non-zero dimensions exceeds 2^63 - 1 bytes. So [2^62, 2^62, 0]
// is refused although it is empty: strides can be computed from any shape that passed.
constexpr std::optional<int64_t> byte_count(Dtype dtype, std::span<const int64_t> shape) {
  int64_t bytes = dtype_size(dtype);
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      empty = true;
    } else if (bytes > std::numeric_limits<int64_t>::max() / extent) {
      return std::nullopt;
    } else {
      bytes *= extent;
    }
  }
  return empty ? 0 : bytes;
}

// A C++ bool that holds a byte other than 0 or 1 is undefined behaviour, so readers refuse such a
// byte.
inline bool are_bytes_valid(Dtype dtype, std::span<const std::byte> bytes) {
  return dtype != Dtype::boolean ||
         std::ranges::all_of(bytes, [](std::byte b) { return b <= std::byte{1}; });
}

}  // namespace geores
