// A safetensors file in memory, read as numbers: types F64, F32 and F16. Strict as
// base/formats/safetensors.h, which has files, all types and a writer: a file that breaks a rule is
// refused in one line that names the tensor.
//
// A packed file (web/wasm/pack_weights.cpp) has three tensors: `values` I8, `scales` and `vectors` F16.
// Its metadata list their contents under "tensors", in order:
//   "input.weight 64 16;input.bias 64;..."
// A matrix takes rows × columns of `values` and rows of `scales`: its entries are scale_i · value_ij. A
// list takes as many of `vectors`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "geores/portable/json.h"

namespace geores::portable {

struct Shape {
  static constexpr int kMostAxes = 4;

  int axes = 0;
  std::int64_t at[kMostAxes] = {};

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    for (const auto extent : extents) at[axes++] = extent;
  }
  std::int64_t operator[](int axis) const { return at[axis]; }
  std::size_t count() const {
    std::size_t product = 1;
    for (int i = 0; i < axes; ++i) product *= static_cast<std::size_t>(at[i]);
    return product;
  }
  bool operator==(const Shape&) const = default;
};

class Weights {
 public:
  // Keeps a view of the bytes and of `where`, which names the file in errors: both must outlive
  // it.
  Weights(std::span<const std::byte> file, const char* where);

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const Shape& shape(std::string_view name) const { return at(name).shape; }

  void check(std::string_view name, const Shape& shape) const;  // refuses none and another shape
  // Refuses a NaN or infinite value, too. `to` is large enough for the tensor.
  void read(std::string_view name, const Shape& shape, double* to) const;

  std::string_view metadata(std::string_view key) const;  // "" where there is none
  const char* where() const { return where_; }
  std::int64_t parameters() const;  // values in all tensors

  int size() const { return count_; }
  std::string_view name(int tensor) const { return entries_[tensor].name; }

 private:
  enum class Type { f64, f32, f16, i8, none };
  struct Entry {
    std::string_view name;
    Shape shape;
    Type type;
    const std::byte *bytes, *scales;
  };
  static std::size_t width_of(Type type);
  static Type type_named(std::string_view name);
  static double value_at(Type type, const std::byte* bytes, std::size_t index);
  const Entry* find(std::string_view name) const;
  const Entry& at(std::string_view name) const;
  void add(const Json& value, std::span<const std::byte> data);
  void check_cover(const std::byte* first, std::size_t size) const;
  void unpack(std::string_view list);

  const char* where_;
  JsonDocument header_;
  Arena arena_;
  Entry* entries_ = nullptr;
  int count_ = 0;
};

// Weights, and the arena for tensors that are read from them.
struct Source {
  const Weights& weights;
  Arena& arena;

  double* read(const Name& name, const Shape& shape) const;
  double* read(const Name& name, int rows, int columns) const;  // a matrix
  double* read(const Name& name, int count) const;
  double single(const Name& name) const { return *read(name, 1); }
};

}  // namespace geores::portable
