// A safetensors file in memory, read as numbers. Types F64 and F32, and I8 with one scale a row:
// the values of tensor `w` (rows, columns) are w[i][j] · w.scale[i], `w.scale` F32 (rows). Strict
// as base/safetensors.h, which has files, all types and a writer: a file that breaks a rule is
// refused in one line that names the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "geores/portable/json.h"

namespace geores::portable {

class Weights {
 public:
  // Keeps a view of the bytes, which must outlive it. `where` stands for the file in errors.
  Weights(std::span<const std::byte> file, std::string where);

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const std::vector<std::int64_t>& shape(std::string_view name) const { return at(name).shape; }

  // Refuses a missing tensor and another shape; a NaN or infinite value too.
  std::vector<double> read(std::string_view name, const std::vector<std::int64_t>& shape) const;

  std::string metadata(std::string_view key) const;  // "" where there is none
  const std::string& where() const { return where_; }
  std::int64_t parameters() const;  // values in all tensors, scales not counted

  // For Model, which says at the end what it has not used.
  std::vector<std::string> names() const;

 private:
  struct Entry {
    std::string name, type;
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;
  };
  const Entry* find(std::string_view name) const;
  bool is_scale(std::string_view name) const;  // of 8-bit rows
  const Entry& at(std::string_view name) const;
  void add(const std::string& name, const Json& value, std::span<const std::byte> data);
  void check_cover(std::size_t size) const;

  std::string where_;
  Json header_;
  std::vector<Entry> entries_;
};

}  // namespace geores::portable
