#include "geores/base/formats/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "geores/base/checksum.h"
#include "geores/base/error.h"
#include "geores/base/json.h"
#include "geores/base/nearest.h"

namespace geores {
namespace {

constexpr uint64_t longest_header = 100'000'000;  // the limit of the reference implementation
constexpr auto metadata_key = "__metadata__";
constexpr auto checksum_key = "geores_xxh3";
const std::string no_checksum(Checksum::kDigits, '0');

// Where the digits of the checksum begin, from the beginning of the header; npos if there is none. A quoted
// key with a quoted value stands in the metadata and nowhere else.
std::size_t find_checksum(std::string_view header) {
  const auto key = fmt::format("\"{}\":\"", checksum_key);
  const auto at = header.find(key);
  return at == header.npos ? at : at + key.size();
}

void verify_checksum(const std::string& expected, std::span<const std::byte> file,
                     std::string_view header, const std::string& where) {
  const auto digits = find_checksum(header);
  Checksum sum;
  if (digits != header.npos) {
    const auto at = sizeof(uint64_t) + digits;
    sum.add(file.first(at));
    sum.add(std::as_bytes(std::span(no_checksum)));
    sum.add(file.subspan(std::min(at + Checksum::kDigits, file.size())));
  }
  require(sum.hex() == expected, where,
          "was damaged after it was written: its checksum does not fit");
}

std::string json_text(const nlohmann::json& json) { return printable(json.dump(), 80); }

std::string dtype_names() {
  std::vector<std::string_view> names;
  for (const auto& info : dtypes) names.push_back(info.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// A list of integers from 0 to 2^63 - 1.
bool is_list_of_counts(const nlohmann::json& json) {
  return json.is_array() && std::ranges::all_of(json, [](const nlohmann::json& element) {
           return element.is_number_unsigned() && std::in_range<int64_t>(element.get<uint64_t>());
         });
}

std::string_view read_header(std::span<const std::byte> file, const std::string& where) {
  uint64_t length = 0;
  require(file.size() >= sizeof length, where,
          "not a safetensors file: {} bytes, the header length alone takes 8", file.size());
  std::memcpy(&length, file.data(), sizeof length);
  const auto rest = file.subspan(sizeof length);
  require(length <= rest.size(), where, "header length {} exceeds the {} bytes that follow it",
          length, rest.size());
  require(length <= longest_header, where, "header length {} exceeds the limit of {}", length,
          longest_header);
  const std::string_view header(reinterpret_cast<const char*>(rest.data()), length);
  require(header.starts_with('{'), where, "header must begin with '{{', got {}",
          quote(header.substr(0, 1)));
  return header;
}

std::map<std::string, std::string> read_metadata(const nlohmann::json& json,
                                                 const std::string& where) {
  require(json.is_object(), where, "__metadata__ must be an object of strings, got {}",
          json_text(json));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    require(value.is_string(), where, "__metadata__ {} must be a string, got {}", quote(key),
            json_text(value));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

TensorView read_tensor(const std::string& name, const nlohmann::json& entry,
                       std::span<const std::byte> data, const std::string& where) {
  const auto check = [&]<class... Args>(bool condition, fmt::format_string<Args...> text,
                                        Args&&... args) {
    if (condition) return;
    fail(where, "tensor {}: {}", quote(name), fmt::format(text, std::forward<Args>(args)...));
  };

  check(entry.is_object(), "must be an object, got {}", json_text(entry));
  for (const auto& [key, value] : entry.items()) {
    check(key == "dtype" || key == "shape" || key == "data_offsets", "unknown key {}", quote(key));
  }
  for (const auto key : {"dtype", "shape", "data_offsets"}) {
    check(entry.contains(key), "{} is missing", key);
  }

  const auto& dtype_json = entry["dtype"];
  check(dtype_json.is_string(), "dtype must be a string, got {}", json_text(dtype_json));
  const auto dtype = dtype_from_name(dtype_json.get_ref<const std::string&>());
  check(dtype.has_value(), "dtype {} is not one of {}", json_text(dtype_json), dtype_names());

  const auto& shape_json = entry["shape"];
  check(is_list_of_counts(shape_json), "shape must be a list of non-negative integers, got {}",
        json_text(shape_json));
  auto shape = shape_json.get<std::vector<int64_t>>();
  const auto needed = byte_count(*dtype, shape);
  check(needed.has_value(), "shape {} is too large", json_text(shape_json));

  const auto& offsets_json = entry["data_offsets"];
  check(is_list_of_counts(offsets_json) && offsets_json.size() == 2,
        "data_offsets must be two non-negative integers, got {}", json_text(offsets_json));
  const auto begin = offsets_json[0].get<int64_t>();
  const auto end = offsets_json[1].get<int64_t>();
  check(begin <= end, "data_offsets {} end before they begin", json_text(offsets_json));
  check(std::cmp_less_equal(end, data.size()), "data_offsets {} exceed the {} bytes of data",
        json_text(offsets_json), data.size());
  check(end - begin == *needed, "shape {} of {} needs {} bytes, data_offsets give {}",
        json_text(shape_json), dtype_name(*dtype), *needed, end - begin);

  const auto bytes =
      data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*needed));
  check(are_bytes_valid(*dtype, bytes), "BOOL data holds a byte other than 0 and 1");
  return {*dtype, std::move(shape), bytes};
}

// The tensors in the order of their data. They must cover the data exactly.
std::vector<std::string> names_by_position(const std::map<std::string, TensorView>& tensors,
                                           std::span<const std::byte> data,
                                           const std::string& where) {
  struct Extent {
    std::size_t begin, end;
    std::string name;
    auto operator<=>(const Extent&) const = default;
  };
  std::vector<Extent> extents;
  for (const auto& [name, tensor] : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    extents.push_back({begin, begin + tensor.bytes.size(), name});
  }
  std::ranges::sort(extents);

  std::vector<std::string> names;
  std::size_t covered = 0;
  for (const auto& [begin, end, name] : extents) {
    if (begin < covered) {
      fail(where, "tensor {}: data begins at {}, inside tensor {} that ends at {}", quote(name),
           begin, quote(names.back()), covered);
    }
    require(begin == covered, where, "tensor {}: bytes {} to {} before it belong to no tensor",
            quote(name), covered, begin);
    covered = end;
    names.push_back(name);
  }
  require(covered == data.size(), where, "the last {} of {} bytes of data belong to no tensor",
          data.size() - covered, data.size());
  return names;
}

constexpr auto format_name = "safetensors";

std::size_t needed_bytes(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape) {
  const auto needed = byte_count(dtype, shape);
  require(needed.has_value(), format_name, "tensor {}: shape [{}] is negative or too large",
          quote(name), fmt::join(shape, ","));
  return static_cast<std::size_t>(*needed);
}

void require_fit(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape,
                 std::size_t size) {
  const auto needed = needed_bytes(name, dtype, shape);
  require(size == needed, format_name, "tensor {}: shape [{}] of {} needs {} bytes, got {}",
          quote(name), fmt::join(shape, ","), dtype_name(dtype), needed, size);
}

void require_valid(const std::string& name, Dtype dtype, std::span<const std::byte> bytes) {
  require(are_bytes_valid(dtype, bytes), format_name,
          "tensor {}: BOOL data holds a byte other than 0 and 1", quote(name));
}

}  // namespace

Safetensors Safetensors::load(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

Safetensors Safetensors::parse(std::vector<std::byte> file, std::string name) {
  Safetensors result;
  result.file_name_ = std::move(name);
  result.file_ = std::move(file);
  const auto& where = result.file_name_;
  const std::span<const std::byte> bytes = result.file_;

  const auto header_text = read_header(bytes, where);
  const auto data = bytes.subspan(sizeof(uint64_t) + header_text.size());
  const auto header = parse_json(header_text, where);
  for (const auto& [key, entry] : header.items()) {
    if (key == metadata_key) {
      result.metadata_ = read_metadata(entry, where);
    } else {
      result.tensors_.emplace(key, read_tensor(key, entry, data, where));
    }
  }
  result.names_ = names_by_position(result.tensors_, data, where);
  if (const auto sum = result.metadata_.find(checksum_key); sum != result.metadata_.end())
    verify_checksum(sum->second, bytes, header_text, where);
  return result;
}

const TensorView& Safetensors::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    fail(file_name_, "tensor {} is missing{}", quote(name), did_you_mean(name, names_));
  }
  return found->second;
}

void SafetensorsWriter::add(const std::string& name, Dtype dtype, std::vector<int64_t> shape,
                            std::span<const std::byte> bytes) {
  require_fit(name, dtype, shape, bytes.size());
  require_valid(name, dtype, bytes);
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  add_source(name, dtype, std::move(shape), [copy](const ByteSink& sink) { sink(*copy); });
}

void SafetensorsWriter::add_source(const std::string& name, Dtype dtype, std::vector<int64_t> shape,
                                   ByteSource source) {
  require(name != metadata_key, format_name, "a tensor cannot be named {}", metadata_key);
  for (const auto& info : dtypes) {
    require(!entries_.contains({info.dtype, name}), format_name, "tensor {} is added twice",
            quote(name));
  }
  const auto size = needed_bytes(name, dtype, shape);
  entries_.emplace(std::pair(dtype, name), Entry{std::move(shape), size, std::move(source)});
}

std::string SafetensorsWriter::header() const {
  auto header = nlohmann::ordered_json::object();
  if (!metadata_.empty()) header[metadata_key] = metadata_;
  std::size_t offset = 0;
  for (const auto& [key, entry] : entries_) {
    const auto& [dtype, name] = key;
    const std::size_t end = offset + entry.size;
    header[name] = {
        {"dtype", dtype_name(dtype)}, {"shape", entry.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail(format_name, "a tensor name or metadata text is not valid UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  require(text.size() <= longest_header, format_name, "header length {} exceeds the limit of {}",
          text.size(), longest_header);
  return text;
}

void SafetensorsWriter::add_checksum() { metadata(checksum_key, no_checksum); }

Amendment SafetensorsWriter::write_to(const ByteSink& given_sink) const {
  const auto text = header();
  const uint64_t length = text.size();
  const bool has_checksum = metadata_.contains(checksum_key);
  Checksum sum;
  const ByteSink sink = [&](std::span<const std::byte> bytes) {
    if (has_checksum) sum.add(bytes);
    given_sink(bytes);
  };
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(text)));
  for (const auto& [key, entry] : entries_) {
    const auto& [dtype, name] = key;
    std::size_t written = 0;
    entry.source([&](std::span<const std::byte> bytes) {
      require_valid(name, dtype, bytes);
      written += bytes.size();
      sink(bytes);
    });
    require_fit(name, dtype, entry.shape, written);
  }
  if (!has_checksum) return {};
  return {.offset = sizeof length + find_checksum(text), .bytes = sum.hex()};
}

std::vector<std::byte> SafetensorsWriter::serialize() const {
  std::size_t size = sizeof(uint64_t) + header().size();
  for (const auto& [key, entry] : entries_) size += entry.size;
  std::vector<std::byte> file;
  file.reserve(size);
  const auto amendment = write_to([&](std::span<const std::byte> bytes) {
    file.insert(file.end(), bytes.begin(), bytes.end());
  });
  std::ranges::copy(std::as_bytes(std::span(amendment.bytes)),
                    file.begin() + static_cast<std::ptrdiff_t>(amendment.offset));
  return file;
}

void SafetensorsWriter::save(const std::filesystem::path& path) const {
  Amendment amendment;
  write_file_atomically(
      path, [&](const ByteSink& sink) { amendment = write_to(sink); }, [&] { return amendment; });
}

}  // namespace geores
