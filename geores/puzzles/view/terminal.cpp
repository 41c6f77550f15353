#include "geores/puzzles/view/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "geores/base/error.h"
#include "geores/base/printable.h"
#include "geores/puzzles/maze/maze.h"
#include "geores/puzzles/tokens.h"

namespace geores::puzzles {
namespace {

// ARC's own colours: black, blue, red, green, yellow, grey, magenta, orange, light blue, maroon.
constexpr std::array<const char*, kColours> arc_colours = {
    "#000000", "#0074d9", "#ff4136", "#2ecc40", "#ffdc00",
    "#aaaaaa", "#f012be", "#ff851b", "#7fdbff", "#870c25"};

CellLook arc_look(int32_t token) {
  if (token < kEnd || token >= kArcVocabulary) return {"  ", "#f4f4f4", "#888888"};
  if (token == kEnd) return {"··", "#dddddd", "#888888"};
  const auto colour = static_cast<std::size_t>(token - kFirstColour);
  const bool light = colour == 4 || colour == 5 || colour == 8 || colour == 3;
  return {fmt::format("{} ", colour), arc_colours[colour], light ? "#222222" : "#ffffff"};
}

CellLook sudoku_look(int32_t token) {
  if (token <= 1) return {". ", "#ffffff", "#bbbbbb"};
  return {fmt::format("{} ", token - 1), "#ffffff", "#222222"};
}

CellLook maze_look(int32_t token) {
  switch (token) {
    case kWall:
      return {"##", "#333333", "#333333"};
    case kFree:
      return {"  ", "#ffffff", "#ffffff"};
    case kStart:
      return {"S ", "#0072b2", "#ffffff"};
    case kGoal:
      return {"G ", "#d55e00", "#ffffff"};
    case kPath:
      return {"o ", "#f0e442", "#222222"};
    default:
      return {"? ", "#f4f4f4", "#888888"};
  }
}

// "#0074d9" -> "0;116;217"
std::string rgb(const std::string& color) {
  std::array<int, 3> parts{};
  for (std::size_t i = 0; i < 3; ++i)
    std::from_chars(color.data() + 1 + 2 * i, color.data() + 3 + 2 * i, parts[i], 16);
  return fmt::format("{};{};{}", parts[0], parts[1], parts[2]);
}

std::string draw_cells(const std::string& kind, std::span<const int32_t> tokens, int width,
                       bool color) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto look = look_of(kind, tokens[i]);
    text += color ? fmt::format("\x1b[48;2;{}m\x1b[38;2;{}m{}", rgb(look.background), rgb(look.ink),
                                look.text)
                  : look.text;
    if (std::cmp_equal((i + 1) % static_cast<std::size_t>(width), 0))
      text += color ? "\x1b[0m\n" : "\n";
  }
  return text;
}

// Columns on the terminal: escape sequences take none, a character of UTF-8 one.
std::size_t shown_width(std::string_view line) {
  std::size_t width = 0;
  while (!line.empty()) {
    if (line.front() == '\x1b') {
      line.remove_prefix(std::min(line.find('m'), line.size() - 1) + 1);
      continue;
    }
    ++width;
    line.remove_prefix(std::max<std::size_t>(1, utf8_character_length(line)));
  }
  return width;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

CellLook look_of(const std::string& kind, int32_t token) {
  if (kind == "sudoku") return sudoku_look(token);
  if (kind == "maze") return maze_look(token);
  return arc_look(token);
}

std::string draw(const DatasetInfo& info, std::span<const int32_t> tokens, bool color) {
  return draw_cells(info.kind, tokens, static_cast<int>(info.width), color);
}

std::string draw(const Grid& grid, bool color) {
  if (grid.empty()) return "(no grid)\n";
  std::vector<int32_t> tokens;
  for (const auto cell : grid.cells) tokens.push_back(kFirstColour + cell);
  return draw_cells("arc", tokens, grid.width, color);
}

std::string side_by_side(const std::vector<std::pair<std::string, std::string>>& titled) {
  std::vector<std::vector<std::string>> blocks;
  std::vector<std::size_t> widths;
  std::size_t height = 0;
  for (const auto& [title, text] : titled) {
    auto lines = lines_of(text);
    lines.insert(lines.begin(), title);
    std::size_t width = 0;
    for (const auto& line : lines) width = std::max(width, shown_width(line));
    height = std::max(height, lines.size());
    widths.push_back(width);
    blocks.push_back(std::move(lines));
  }
  std::string result;
  for (std::size_t row = 0; row < height; ++row) {
    std::string line;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto& piece = row < blocks[b].size() ? blocks[b][row] : std::string();
      line += piece + std::string(widths[b] - shown_width(piece) + 3, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

}  // namespace geores::puzzles
