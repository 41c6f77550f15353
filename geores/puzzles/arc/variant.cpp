#include "geores/puzzles/arc/variant.h"

#include <fmt/format.h>

#include "geores/base/error.h"

namespace geores::puzzles {
namespace {

constexpr std::string_view separator = "|||";

Grid recoloured(Grid grid, const std::array<uint8_t, kColours>& colours) {
  for (auto& cell : grid.cells) cell = colours[cell];
  return grid;
}

// t and the ten digits of π, after the task's name.
bool parse_tail(std::string_view tail, Variant& variant) {
  if (tail.size() != 2 + separator.size() + kColours || tail[0] != 't' || tail[1] < '0' ||
      tail[1] > '7' || tail.substr(2, separator.size()) != separator)
    return false;
  variant.t = static_cast<uint8_t>(tail[1] - '0');
  unsigned seen = 0;
  for (std::size_t k = 0; k < kColours; ++k) {
    const char digit = tail[2 + separator.size() + k];
    if (digit < '0' || digit > '9') return false;
    variant.colours[k] = static_cast<uint8_t>(digit - '0');
    seen |= 1u << variant.colours[k];
  }
  return seen == (1u << kColours) - 1 && variant.colours[0] == 0;
}

}  // namespace

Grid apply(const Variant& variant, const Grid& grid) {
  return recoloured(dihedral(grid, variant.t), variant.colours);
}

Grid undo(const Variant& variant, const Grid& grid) {
  std::array<uint8_t, kColours> inverse{};
  for (std::size_t k = 0; k < kColours; ++k) inverse[variant.colours[k]] = static_cast<uint8_t>(k);
  return recoloured(dihedral(grid, inverse_dihedral(variant.t)), inverse);
}

std::string name_of(std::string_view task, const Variant& variant) {
  std::string name(task);
  if (variant.is_original()) return name;
  name += fmt::format("{0}t{1}{0}", separator, variant.t);
  for (const auto colour : variant.colours) name += static_cast<char>('0' + colour);
  return name;
}

NamedVariant parse_variant(std::string_view name, std::string_view where) {
  NamedVariant result;
  const auto end = name.find(separator);
  result.task = name.substr(0, end);
  require(!result.task.empty(), where, "{} names no task", quote(name));
  if (end == name.npos) return result;
  require(parse_tail(name.substr(end + separator.size()), result.variant), where,
          "{} is no name of a variant; one looks like TASK|||t7|||0612397845", quote(name));
  return result;
}

}  // namespace geores::puzzles
