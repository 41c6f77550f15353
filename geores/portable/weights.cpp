#include "geores/portable/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "geores/base/refusal.h"

namespace geores::portable {
namespace {

constexpr std::uint64_t longest_header = 1 << 20;

std::size_t width_of(std::string_view type) {
  if (type == "F64") return 8;
  if (type == "F32") return 4;
  if (type == "I8") return 1;
  return 0;
}

// A whole number >= 0 that a double holds exactly.
bool is_count(const Json& value) {
  return value.kind() == Json::Kind::number && value.number() >= 0 && value.number() < 0x1p53 &&
         value.number() == std::floor(value.number());
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

template <class T>
double value_at(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

Weights::Weights(std::span<const std::byte> file, std::string where) : where_(std::move(where)) {
  refuse_unless(file.size() >= 8, where_, "{} bytes are too few for a safetensors file",
                file.size());
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);  // little-endian, as every machine this runs on
  refuse_unless(length <= file.size() - 8 && length <= longest_header, where_,
                "header length {} exceeds the {} bytes that follow it, or 1 MB", length,
                file.size() - 8);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  header_ = Json::parse(text, where_);
  refuse_unless(header_.kind() == Json::Kind::object, where_, "the header is not an object");
  const auto data = file.subspan(8 + length);
  for (const auto& [name, value] : header_.members()) {
    if (name == "__metadata__") continue;
    add(name, value, data);
  }
  check_cover(data.size());
}

void Weights::add(const std::string& name, const Json& value, std::span<const std::byte> data) {
  const auto shown = quote(name);
  const auto* type = value.find("dtype");
  const auto* shape = value.find("shape");
  const auto* offsets = value.find("data_offsets");
  refuse_unless(type && shape && offsets && type->kind() == Json::Kind::string, where_,
                "tensor {}: needs dtype, shape and data_offsets", shown);
  Entry entry{name, type->string(), {}, {}};
  const auto width = width_of(entry.type);
  refuse_unless(width > 0, where_, "tensor {}: type {} is not one of F64, F32, I8", shown,
                quote(entry.type));
  double count = 1;
  for (const auto& extent : shape->items()) {
    refuse_unless(is_count(extent), where_, "tensor {}: a shape holds whole numbers", shown);
    entry.shape.push_back(static_cast<std::int64_t>(extent.number()));
    count *= extent.number();
  }
  const auto& ends = offsets->items();
  refuse_unless(ends.size() == 2 && is_count(ends[0]) && is_count(ends[1]) &&
                    ends[0].number() <= ends[1].number() &&
                    ends[1].number() <= static_cast<double>(data.size()),
                where_, "tensor {}: data_offsets do not lie in the {} bytes of data", shown,
                data.size());
  const auto begin = static_cast<std::size_t>(ends[0].number());
  const auto end = static_cast<std::size_t>(ends[1].number());
  refuse_unless(count * static_cast<double>(width) == static_cast<double>(end - begin), where_,
                "tensor {}: shape {} of {} does not fit {} bytes", shown, shape_text(entry.shape),
                entry.type, end - begin);
  entry.bytes = data.subspan(begin, end - begin);
  entries_.push_back(std::move(entry));
}

void Weights::check_cover(std::size_t size) const {
  std::vector<std::span<const std::byte>> parts;
  for (const auto& entry : entries_) parts.push_back(entry.bytes);
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return a.data() != b.data() ? a.data() < b.data() : a.size() < b.size();
  });
  std::size_t covered = 0;
  const std::byte* next = nullptr;
  for (const auto& part : parts) {
    refuse_unless(next == nullptr || part.data() == next, where_,
                  "the tensors' data overlap or leave a hole");
    next = part.data() + part.size();
    covered += part.size();
  }
  refuse_unless(covered == size, where_, "the tensors cover {} of {} bytes of data", covered, size);
}

const Weights::Entry* Weights::find(std::string_view name) const {
  for (const auto& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

const Weights::Entry& Weights::at(std::string_view name) const {
  const auto* entry = find(name);
  refuse_unless(entry != nullptr, where_, "tensor {} is missing", quote(name));
  return *entry;
}

std::vector<double> Weights::read(std::string_view name,
                                  const std::vector<std::int64_t>& shape) const {
  const auto& entry = at(name);
  refuse_unless(entry.shape == shape, where_, "tensor {} must be {}, got {}", quote(name),
                shape_text(shape), shape_text(entry.shape));
  const auto count = entry.bytes.size() / width_of(entry.type);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = entry.type == "F64"   ? value_at<double>(entry.bytes, i)
                : entry.type == "F32" ? value_at<float>(entry.bytes, i)
                                      : value_at<std::int8_t>(entry.bytes, i);
  if (entry.type == "I8") {
    const auto rows = shape.empty() ? 1 : shape.front();
    const auto scales = read(std::string(name) + ".scale", {rows});
    for (std::size_t i = 0; i < count; ++i)
      values[i] *= scales[i / (count / static_cast<std::size_t>(rows))];
  }
  for (const double value : values)
    refuse_unless(std::isfinite(value), where_, "tensor {} holds NaN or infinite values",
                  quote(name));
  return values;
}

std::string Weights::metadata(std::string_view key) const {
  const auto* all = header_.find("__metadata__");
  const auto* value = all ? all->find(key) : nullptr;
  return value ? value->string() : "";
}

bool Weights::is_scale(std::string_view name) const {
  if (!name.ends_with(".scale")) return false;
  const auto* scaled = find(name.substr(0, name.size() - 6));
  return scaled != nullptr && scaled->type == "I8";
}

std::int64_t Weights::parameters() const {
  std::int64_t total = 0;
  for (const auto& entry : entries_)
    if (!is_scale(entry.name))
      total += static_cast<std::int64_t>(entry.bytes.size() / width_of(entry.type));
  return total;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> all;
  for (const auto& entry : entries_) all.push_back(entry.name);
  return all;
}

}  // namespace geores::portable
