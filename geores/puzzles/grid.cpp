#include "geores/puzzles/grid.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/base/sha256.h"

namespace geores::puzzles {

Grid dihedral(const Grid& grid, int t) {
  require(t >= 0 && t < 8, "puzzles", "a symmetry of the square is 0 to 7, got {}", t);
  const int h = grid.height, w = grid.width;
  const bool turned = t == 1 || t == 3 || t == 6 || t == 7;
  Grid result{turned ? w : h, turned ? h : w, {}};
  result.cells.reserve(grid.cells.size());
  const auto source = [&](int i, int j) {
    switch (t) {
      case 1:
        return grid.at(j, w - 1 - i);
      case 2:
        return grid.at(h - 1 - i, w - 1 - j);
      case 3:
        return grid.at(h - 1 - j, i);
      case 4:
        return grid.at(i, w - 1 - j);
      case 5:
        return grid.at(h - 1 - i, j);
      case 6:
        return grid.at(j, i);
      case 7:
        return grid.at(h - 1 - j, w - 1 - i);
      default:
        return grid.at(i, j);
    }
  };
  for (int i = 0; i < result.height; ++i)
    for (int j = 0; j < result.width; ++j) result.cells.push_back(source(i, j));
  return result;
}

std::string grid_hash(const Grid& grid) {
  const std::byte size[] = {static_cast<std::byte>(grid.height),
                            static_cast<std::byte>(grid.width)};
  Sha256 sum;
  sum.add(size);
  sum.add(std::as_bytes(std::span(grid.cells)));
  return sum.hex();
}

std::string puzzle_hash(const std::vector<Pair>& pairs) {
  std::vector<std::string> hashes;
  for (const auto& pair : pairs)
    hashes.push_back(grid_hash(pair.input) + "|" + grid_hash(pair.output));
  std::ranges::sort(hashes);
  std::string joined;
  for (const auto& hash : hashes) joined += (joined.empty() ? "" : "|") + hash;
  return sha256(joined);
}

nlohmann::json to_json(const Grid& grid) {
  auto rows = nlohmann::json::array();
  for (int i = 0; i < grid.height; ++i) {
    auto row = nlohmann::json::array();
    for (int j = 0; j < grid.width; ++j) row.push_back(grid.at(i, j));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace geores::puzzles
