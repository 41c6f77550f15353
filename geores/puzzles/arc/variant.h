// A variant of an ARC task: every grid a becomes D_t(π(a)), with a symmetry t of the square and a
// permutation π of the colours that keeps 0.
//   name_of("8be77c9e", {.t = 7, .colours = {0, 6, 1, 2, 3, 9, 7, 8, 4, 5}})
//     ->  8be77c9e|||t7|||0612397845         the original is just 8be77c9e
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "geores/puzzles/grid.h"

namespace geores::puzzles {

struct Variant {
  uint8_t t = 0;
  std::array<uint8_t, kColours> colours = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};  // π(0), π(1), …

  friend bool operator==(const Variant&, const Variant&) = default;
  bool is_original() const { return *this == Variant{}; }
};

Grid apply(const Variant& variant, const Grid& grid);
Grid undo(const Variant& variant, const Grid& grid);

std::string name_of(std::string_view task, const Variant& variant);

struct NamedVariant {
  std::string task;
  Variant variant;
};
// Refuses names that name_of() would not write; `where` names the file in the error.
NamedVariant parse_variant(std::string_view name, std::string_view where);

}  // namespace geores::puzzles
