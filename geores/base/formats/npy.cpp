#include "geores/base/formats/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "geores/base/error.h"
#include "geores/base/file.h"

namespace geores {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t most_dimensions = 64;  // NumPy's limit

constexpr std::pair<Dtype, std::string_view> descriptions[] = {
    {Dtype::i64, "<i8"}, {Dtype::f64, "<f8"}, {Dtype::f32, "<f4"},
    {Dtype::i32, "<i4"}, {Dtype::f16, "<f2"}, {Dtype::i16, "<i2"},
    {Dtype::i8, "|i1"},  {Dtype::u8, "|u1"},  {Dtype::boolean, "|b1"}};

// "" for a type that the format does not have.
constexpr std::string_view descr_of(Dtype wanted) {
  for (const auto& [dtype, text] : descriptions) {
    if (dtype == wanted) return text;
  }
  return "";
}

// (), (3,) and (2, 3), as Python writes tuples.
std::string tuple_text(std::span<const int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

struct Header {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Reads the header's Python dictionary, and only the part of Python that NumPy writes there.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view where)
      : rest_(text.substr(0, text.find_last_not_of(blanks) + 1)), where_(where) {}

  // The result has all three members set.
  Header read() {
    Header header;
    expect('{');
    while (!accept('}')) {
      read_entry(header);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    require(rest_.empty(), where_, "header goes on after its end: {}", quote(rest_));
    require(header.descr.has_value(), where_, "descr is missing in the header");
    require(header.fortran_order.has_value(), where_, "fortran_order is missing in the header");
    require(header.shape.has_value(), where_, "shape is missing in the header");
    return header;
  }

 private:
  void read_entry(Header& header) {
    const auto key = read_string();
    expect(':');
    if (key == "descr") {
      set_once(header.descr, key, read_string());
    } else if (key == "fortran_order") {
      set_once(header.fortran_order, key, read_bool());
    } else if (key == "shape") {
      set_once(header.shape, key, read_tuple());
    } else {
      fail(where_, "unknown key {} in the header", quote(key));
    }
  }

  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size()));
  }

  bool accept(char wanted) {
    skip_blanks();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    require(accept(wanted), where_, "header must have '{}' before {}", wanted, quote(rest_));
  }

  std::string_view read_string() {
    skip_blanks();
    const char mark = rest_.empty() ? ' ' : rest_.front();
    const auto end = mark == '\'' || mark == '"' ? rest_.find(mark, 1) : rest_.npos;
    require(end != rest_.npos, where_, "header must have a string before {}", quote(rest_));
    const auto text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool read_bool() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    fail(where_, "fortran_order must be True or False, got {}", quote(rest_));
  }

  std::vector<int64_t> read_tuple() {
    std::vector<int64_t> tuple;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      int64_t extent = 0;
      const auto [end, problem] =
          std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      require(problem == std::errc() && extent >= 0, where_,
              "shape must be a tuple of non-negative 64-bit integers, got {}", quote(rest_));
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      tuple.push_back(extent);
      const bool comma = accept(',');
      require(comma || tuple.size() > 1, where_, "shape ({}) is a number, not a tuple", extent);
      if (!comma) {
        expect(')');
        break;
      }
    }
    return tuple;
  }

  template <class T>
  void set_once(std::optional<T>& member, std::string_view key, T value) {
    require(!member.has_value(), where_, "key {} appears twice in the header", quote(key));
    member = std::move(value);
  }

  static constexpr auto blanks = " \n";
  std::string_view rest_;  // the unread rest, ends with a character that is not blank
  std::string_view where_;
};

Dtype dtype_from_descr(std::string_view descr, std::string_view where) {
  for (const auto& [dtype, text] : descriptions) {
    if (descr == text) return dtype;
  }
  if (descr.starts_with('>')) {
    fail(where, "descr {} is big-endian; save it as little-endian, e.g. with x.astype('<{}')",
         quote(descr), printable(descr.substr(1), 8));
  }
  std::vector<std::string_view> known;
  for (const auto& each : descriptions) known.push_back(each.second);
  fail(where, "descr {} is not one of {}", quote(descr), fmt::join(known, ", "));
}

// In Fortran order, element (i_0, i_1, ...) is at i_0 + s_0 (i_1 + s_1 (...)).
std::vector<std::byte> fortran_to_c_order(std::span<const std::byte> source,
                                          std::span<const int64_t> shape, int64_t element_size) {
  std::vector<int64_t> stride(shape.size(), element_size);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) {
    stride[axis] = stride[axis - 1] * shape[axis - 1];
  }
  std::vector<std::byte> result(source.size());
  const auto count = static_cast<int64_t>(source.size()) / element_size;
  for (int64_t element = 0; element < count; ++element) {
    int64_t position = 0;
    int64_t rest = element;
    for (std::size_t axis = shape.size(); axis > 0; --axis) {
      position += rest % shape[axis - 1] * stride[axis - 1];
      rest /= shape[axis - 1];
    }
    std::memcpy(result.data() + element * element_size, source.data() + position,
                static_cast<std::size_t>(element_size));
  }
  return result;
}

// The array and whether its data is in Fortran order.
struct Layout {
  NpyView view;
  bool fortran_order;
};

Layout read_layout(std::span<const std::byte> file, std::string_view where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  require(text.starts_with(magic) && text.size() >= magic.size() + 2, where,
          "not an .npy file: it must begin with \\x93NUMPY and a version");
  const auto major = static_cast<unsigned>(file[magic.size()]);
  const auto minor = static_cast<unsigned>(file[magic.size() + 1]);
  require(major >= 1 && major <= 3 && minor == 0, where,
          "version {}.{} of the .npy format is not one of 1.0, 2.0, 3.0", major, minor);

  const std::size_t width = major == 1 ? 2 : 4;  // of the length field
  auto rest = file.subspan(magic.size() + 2);
  require(rest.size() >= width, where, "ends inside the header length");
  uint32_t length = 0;
  std::memcpy(&length, rest.data(), width);
  rest = rest.subspan(width);
  require(length <= rest.size(), where, "header length {} exceeds the {} bytes that follow it",
          length, rest.size());

  const auto header = HeaderReader(text.substr(file.size() - rest.size(), length), where).read();
  const auto data = rest.subspan(length);
  const Dtype dtype = dtype_from_descr(*header.descr, where);
  const auto& shape = *header.shape;
  require(shape.size() <= most_dimensions, where, "shape has {} dimensions, more than {}",
          shape.size(), most_dimensions);
  const auto needed = byte_count(dtype, shape);
  const auto shown_shape = printable(tuple_text(shape), 80);
  require(needed.has_value(), where, "shape {} is too large", shown_shape);
  require(std::cmp_equal(data.size(), *needed), where,
          "shape {} of {} needs {} bytes of data, the file holds {}", shown_shape, *header.descr,
          *needed, data.size());
  require(are_bytes_valid(dtype, data), where, "|b1 data holds a byte other than 0 and 1");
  return {{dtype, shape, data}, *header.fortran_order};
}

}  // namespace

NpyArray load_npy(const std::filesystem::path& path) {
  return parse_npy(read_file(path), path.native());
}

NpyArray parse_npy(std::span<const std::byte> file, std::string_view where) {
  const auto found = read_layout(file, where);
  const auto& [dtype, shape, data] = found.view;
  auto bytes = found.fortran_order ? fortran_to_c_order(data, shape, dtype_size(dtype))
                                   : std::vector<std::byte>(data.begin(), data.end());
  return {dtype, shape, std::move(bytes)};
}

NpyView view_npy(std::span<const std::byte> file, std::string_view where) {
  auto found = read_layout(file, where);
  require(!found.fortran_order, where, "is in Fortran order; save it with np.ascontiguousarray");
  return std::move(found.view);
}

std::string npy_header(Dtype wanted, std::span<const int64_t> shape) {
  constexpr auto where = "npy";
  const auto descr = descr_of(wanted);
  require(!descr.empty(), where, "{} cannot be stored in an .npy file", dtype_name(wanted));
  require(shape.size() <= most_dimensions, where, "shape has {} dimensions, more than {}",
          shape.size(), most_dimensions);
  require(byte_count(wanted, shape).has_value(), where, "shape {} is negative or too large",
          printable(tuple_text(shape), 80));

  auto header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr,
                            tuple_text(shape));
  constexpr std::size_t alignment = 64;
  const std::size_t before = magic.size() + 4;  // version and length
  const auto padded = (before + header.size() + 1 + alignment - 1) / alignment * alignment;
  header.resize(padded - before - 1, ' ');
  header += '\n';
  std::string start(magic);
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
            static_cast<char>(header.size() >> 8)};
  return start + header;
}

std::vector<std::byte> serialize_npy(const NpyArray& array) {
  constexpr auto where = "npy";
  const auto header = npy_header(array.dtype, array.shape);
  const auto needed = *byte_count(array.dtype, array.shape);
  require(std::cmp_equal(array.bytes.size(), needed), where,
          "shape {} of {} needs {} bytes of data, got {}", printable(tuple_text(array.shape), 80),
          descr_of(array.dtype), needed, array.bytes.size());
  require(are_bytes_valid(array.dtype, array.bytes), where,
          "BOOL data holds a byte other than 0 and 1");
  const auto start = std::as_bytes(std::span(header));
  std::vector<std::byte> file(start.begin(), start.end());
  file.insert(file.end(), array.bytes.begin(), array.bytes.end());
  return file;
}

void save_npy(const std::filesystem::path& path, const NpyArray& array) {
  write_file_atomically(path, serialize_npy(array));
}

}  // namespace geores
