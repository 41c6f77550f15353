// The safetensors format: named arrays and string metadata in one file.
//   8 bytes   N, little-endian
//   N bytes   JSON: {"__metadata__": {"k": "v"}, "w": {"dtype": "F32", "shape": [2, 3],
//             "data_offsets": [0, 24]}, ...}, padded with spaces
//   the rest  the data; the offsets of the tensors cover it without overlap and without holes
//
//   const auto file = Safetensors::load("model.safetensors");
//   const TensorView& w = file.at("blocks.0.w");      // w.dtype, w.shape, w.bytes
//   SafetensorsWriter writer;
//   writer.metadata("step", "100");
//   writer.add("w", Dtype::f32, {2, 3}, std::as_bytes(std::span(values)));
//   writer.save("model.safetensors");
//
// A writer that was asked for a checksum puts one into the metadata: "geores_xxh3", XXH3 of the whole file
// with sixteen zeros instead of the checksum's own digits. A reader verifies it wherever it is.
//
// A file that breaks any rule of the format is refused with one line that names the file, the
// tensor and the values:
//   [model.safetensors] header length 1152921504606846976 exceeds the 312 bytes that follow it
//   [model.safetensors] tensor 'w': shape [2,3] of F32 needs 24 bytes, data_offsets give 20
//   [model.safetensors] tensor 'blok.0.w' is missing, did you mean 'blocks.0.w'?
//   [model.safetensors] was damaged after it was written: its checksum does not fit
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "geores/base/dtype.h"
#include "geores/base/file.h"

namespace geores {

// An array inside a Safetensors object, which must outlive this view. The bytes are in C order and
// may be unaligned for their type: copy them out with memcpy.
struct TensorView {
  Dtype dtype;
  std::vector<int64_t> shape;  // empty for a scalar
  std::span<const std::byte> bytes;
};

class Safetensors {
 public:
  static Safetensors load(const std::filesystem::path& path);

  // `name` names the file in errors.
  static Safetensors parse(std::vector<std::byte> file, std::string name);

  Safetensors(Safetensors&&) = default;
  Safetensors& operator=(Safetensors&&) = default;

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<std::string>& names() const { return names_; }  // in the order of their data
  bool contains(const std::string& name) const { return tensors_.contains(name); }
  const TensorView& at(const std::string& name) const;

 private:
  Safetensors() = default;

  std::string file_name_;
  std::vector<std::byte>
      file_;  // the views point into it, so a Safetensors can be moved but not copied
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorView> tensors_;
  std::vector<std::string> names_;
};

// The file depends on the content alone, not on the order of the calls. Metadata are sorted by key;
// tensors are sorted by descending width of their type and then by name; the header is padded to a
// multiple of 8 bytes. So every tensor is aligned, and equal content gives equal bytes.
class SafetensorsWriter {
 public:
  // Copies the bytes. Refuses a name that was already added, and bytes that do not fit the shape.
  void add(const std::string& name, Dtype dtype, std::vector<int64_t> shape,
           std::span<const std::byte> bytes);

  // Copies nothing: `source` gives the bytes each time the file is written, as many as fit the shape.
  void add_source(const std::string& name, Dtype dtype, std::vector<int64_t> shape,
                  ByteSource source);

  // A key that was already given gets the new value.
  void metadata(const std::string& key, const std::string& value) { metadata_[key] = value; }

  // So that a reader notices when a bit changes.
  void add_checksum();

  std::vector<std::byte> serialize() const;

  // Uses write_file_atomically(), tensor by tensor.
  void save(const std::filesystem::path& path) const;

 private:
  struct Entry {
    std::vector<int64_t> shape;
    std::size_t size;
    ByteSource source;
  };

  std::string header() const;
  // Returns what is to replace the zeros of the checksum; nothing: there is none.
  Amendment write_to(const ByteSink& sink) const;

  std::map<std::string, std::string> metadata_;
  std::map<std::pair<Dtype, std::string>, Entry> entries_;
};

}  // namespace geores
