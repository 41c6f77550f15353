#include "geores/portable/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace geores::portable {
namespace {

constexpr std::uint64_t longest_header = 1 << 20;

// A whole number from 0 that a double holds exactly; refused: -1.
std::int64_t count_in(const Json& value) {
  const double number = value.number();
  const bool whole = value.kind() == Json::Kind::number && number >= 0 && number < 0x1p53 &&
                     number == std::floor(number);
  return whole ? static_cast<std::int64_t>(number) : -1;
}

// "(2, 3)"
Name shape_text(const Shape& shape) {
  Name text = "(";
  for (int i = 0; i < shape.axes; ++i) {
    if (i > 0) text += ", ";
    char digits[20];
    int count = 0;
    for (auto rest = shape[i]; count == 0 || rest > 0; rest /= 10)
      digits[count++] = static_cast<char>('0' + rest % 10);
    while (count > 0) text += digits[--count];
  }
  return text + ")";
}

std::string_view header_of(std::span<const std::byte> file, const char* where) {
  refuse_unless(file.size() >= 8, where, "{} bytes are too few for a safetensors file",
                {file.size()});
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);  // little-endian, as every machine this runs on
  refuse_unless(length <= file.size() - 8 && length <= longest_header, where,
                "header length {} exceeds the {} bytes that follow it, or 1 MB",
                {length, file.size() - 8});
  return {reinterpret_cast<const char*>(file.data()) + 8, static_cast<std::size_t>(length)};
}

double from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size =
      exponent == 31 ? NAN  // refused by its reader
      : exponent == 0
          ? fraction * 0x1p-24
          : (1024 + fraction) * std::bit_cast<double>(std::uint64_t(exponent + 998) << 52);
  return bits >> 15 ? -size : size;
}

template <class T>
T stored(const std::byte* bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::size_t Weights::width_of(Type type) {
  constexpr unsigned char widths[] = {8, 4, 2, 1, 0};
  return widths[static_cast<int>(type)];
}

Weights::Type Weights::type_named(std::string_view name) {
  constexpr std::string_view names[] = {"F64", "F32", "F16", "I8"};
  int type = 0;
  while (type < 4 && names[type] != name) ++type;
  return static_cast<Type>(type);
}

double Weights::value_at(Type type, const std::byte* bytes, std::size_t index) {
  if (type == Type::f64) return stored<double>(bytes, index);
  if (type == Type::f32) return stored<float>(bytes, index);
  if (type == Type::f16) return from_half(stored<std::uint16_t>(bytes, index));
  return stored<std::int8_t>(bytes, index);
}

Weights::Weights(std::span<const std::byte> file, const char* where)
    : where_(where), header_(header_of(file, where), where) {
  const auto& header = header_.root();
  refuse_unless(header.kind() == Json::Kind::object, where_, "the header is not an object");
  int members = 0;
  for ([[maybe_unused]] const auto& member : header) ++members;
  entries_ = static_cast<Entry*>(arena_.bytes(members, sizeof(Entry)));
  const auto data = file.subspan(8 + header_of(file, where).size());
  for (const auto& member : header)
    if (member.key() != "__metadata__") add(member, data);
  check_cover(data.data(), data.size());
  if (const auto list = metadata("tensors"); !list.empty()) unpack(list);
}

void Weights::add(const Json& value, std::span<const std::byte> data) {
  const auto name = value.key();
  const auto* type = value.find("dtype");
  const auto* shape = value.find("shape");
  const auto* offsets = value.find("data_offsets");
  refuse_unless(type && shape && offsets, where_, "tensor {}: needs dtype, shape and data_offsets",
                {quoted(name)});
  Entry& entry = entries_[count_++];
  entry.name = name;
  entry.type = type_named(type->string());
  const auto width = width_of(entry.type);
  refuse_unless(width > 0, where_, "tensor {}: type {} is not one of F64, F32, F16, I8",
                {quoted(name), quoted(type->string())});
  double size = static_cast<double>(width);
  for (const auto& extent : *shape) {
    refuse_unless(count_in(extent) >= 0 && entry.shape.axes < Shape::kMostAxes, where_,
                  "tensor {}: a shape has at most {} whole numbers",
                  {quoted(name), Shape::kMostAxes});
    entry.shape.at[entry.shape.axes++] = count_in(extent);
    size *= extent.number();
  }
  std::int64_t ends[2] = {-1, -1};
  int count = 0;
  for (const auto& offset : *offsets) {
    if (count < 2) ends[count] = count_in(offset);
    ++count;
  }
  refuse_unless(count == 2 && ends[0] >= 0 && ends[0] <= ends[1] &&
                    ends[1] <= static_cast<std::int64_t>(data.size()),
                where_, "tensor {}: data_offsets are not in the {} bytes of data",
                {quoted(name), data.size()});
  if (size != static_cast<double>(ends[1] - ends[0]))
    refuse(where_, "tensor {}: shape {} of {} does not fit {} bytes",
           {quoted(name), std::string_view(shape_text(entry.shape)), type->string(),
            ends[1] - ends[0]});
  entry.bytes = data.data() + ends[0];
}

void Weights::check_cover(const std::byte* first, std::size_t size) const {
  struct Part {
    const std::byte* begin;
    std::size_t size;
    bool operator<(const Part& other) const {
      return begin != other.begin ? begin < other.begin : size < other.size;
    }
  };
  Arena arena;
  auto* parts = static_cast<Part*>(arena.bytes(count_, sizeof(Part)));
  for (int i = 0; i < count_; ++i)
    parts[i] = {entries_[i].bytes, entries_[i].shape.count() * width_of(entries_[i].type)};
  std::make_heap(parts, parts + count_);
  std::sort_heap(parts, parts + count_);
  const std::byte* next = first;
  for (int i = 0; i < count_; ++i) {
    refuse_unless(parts[i].begin == next, where_, "the tensors' data overlap or leave a hole");
    next += parts[i].size;
  }
  refuse_unless(next == first + size, where_, "the tensors cover {} of {} bytes of data",
                {next - first, size});
}

void Weights::unpack(std::string_view list) {
  const Entry packed[] = {at("values"), at("scales"), at("vectors")};
  std::size_t used[3] = {};
  const auto take = [&](int from, std::size_t count) {
    const auto& entry = packed[from];
    const auto begin = used[from];
    used[from] += count;
    refuse_unless(
        entry.type == (from == 0 ? Type::i8 : Type::f16) && used[from] <= entry.shape.count(),
        where_, "{} does not match the list of tensors", {entry.name});
    return entry.bytes + begin * width_of(entry.type);
  };
  int tensors = 0;
  for (const char c : list) tensors += c == ';';
  entries_ = static_cast<Entry*>(arena_.bytes(tensors, sizeof(Entry)));
  count_ = 0;
  while (count_ < tensors) {
    const auto before = [&](char mark) {
      std::size_t length = 0;
      while (length < list.size() && list[length] != mark && list[length] != ';') ++length;
      const auto part = list.substr(0, length);
      list.remove_prefix(length);
      return part;
    };
    Entry& entry = entries_[count_++];
    entry.name = before(' ');
    const auto extents = before(';');
    list.remove_prefix(1);
    for (const char c : extents) {
      auto& extent = entry.shape.at[entry.shape.axes > 0 ? entry.shape.axes - 1 : 0];
      if (c == ' ') {
        ++entry.shape.axes;
      } else {
        extent = 10 * extent + (c - '0');
      }
      refuse_unless(
          entry.shape.axes <= 2 && (c == ' ' || (c >= '0' && c <= '9')) && extent <= 1 << 24,
          where_, "the list of tensors is broken at {}", {quoted(entry.name)});
    }
    const bool matrix = entry.shape.axes == 2;
    entry.type = matrix ? Type::i8 : Type::f16;
    entry.bytes = take(matrix ? 0 : 2, entry.shape.count());
    entry.scales = matrix ? take(1, static_cast<std::size_t>(entry.shape[0])) : nullptr;
  }
  for (int i = 0; i < 3; ++i)
    refuse_unless(used[i] == packed[i].shape.count(), where_,
                  "{} holds more than the list of tensors says", {packed[i].name});
}

const Weights::Entry* Weights::find(std::string_view name) const {
  for (int i = 0; i < count_; ++i)
    if (entries_[i].name == name) return &entries_[i];
  return nullptr;
}

const Weights::Entry& Weights::at(std::string_view name) const {
  const auto* entry = find(name);
  refuse_unless(entry != nullptr, where_, "tensor {} is missing", {quoted(name)});
  return *entry;
}

void Weights::check(std::string_view name, const Shape& shape) const {
  const auto& entry = at(name);
  if (entry.shape == shape) return;
  refuse(where_, "tensor {} must be {}, got {}",
         {quoted(name), std::string_view(shape_text(shape)),
          std::string_view(shape_text(entry.shape))});
}

void Weights::read(std::string_view name, const Shape& shape, double* to) const {
  check(name, shape);
  const auto& entry = at(name);
  const auto count = shape.count();
  refuse_unless(entry.type != Type::i8 || entry.scales != nullptr, where_,
                "tensor {}: 8-bit values need scales", {quoted(name)});
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = value_at(entry.type, entry.bytes, i);
    if (entry.scales)
      to[i] *= value_at(Type::f16, entry.scales, i / static_cast<std::size_t>(shape[1]));
    finite = finite && std::isfinite(to[i]);
  }
  refuse_unless(finite, where_, "tensor {} holds NaN or infinite values", {quoted(name)});
}

std::string_view Weights::metadata(std::string_view key) const {
  const auto* all = header_.root().find("__metadata__");
  const auto* value = all ? all->find(key) : nullptr;
  return value ? value->string() : "";
}

std::int64_t Weights::parameters() const {
  std::size_t total = 0;
  for (int i = 0; i < count_; ++i) total += entries_[i].shape.count();
  return static_cast<std::int64_t>(total);
}

double* Source::read(const Name& name, int rows, int columns) const {
  return read(name, Shape{rows, columns});
}

double* Source::read(const Name& name, int count) const { return read(name, Shape{count}); }

double* Source::read(const Name& name, const Shape& shape) const {
  weights.check(name, shape);  // before memory is allocated for it
  double* to = arena.doubles(shape.count());
  weights.read(name, shape, to);
  return to;
}

}  // namespace geores::portable
