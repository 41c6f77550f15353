// A table of texts, written once for terminals, Markdown and pages.
//   Table table{"An explanation.", {"model", "loss"}, {{"additive", "3.8e-3"}}};
//   fmt::print("{}", to_text(table));
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace geores {

struct Table {
  struct Cell {
    std::size_t row, column;
    bool operator==(const Cell&) const = default;
  };

  std::string explanation;  // notes for the reader, in a sentence or two
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;  // the first cell names the row
  std::vector<Cell> marked = {};               // cells that stand out: bold on pages, * in texts
};

// Marks the cell of a column with the lowest value, or several cells with the same. `values` has one
// number a row; NaN for a cell without a number.
void mark_lowest(Table& table, std::size_t column, std::span<const double> values);

// Removes columns without any text; the first, which names the rows, stays.
void drop_empty_columns(Table& table);

// Columns are as wide as their content; the first is aligned left, the others right. Lines have no
// trailing blanks. The explanation is left out. Every row must have as many cells as there are
// heads.
std::string to_text(const Table& table);
std::string to_markdown(const Table& table);
std::string to_html(const Table& table);

// Replaces & < > " by entities.
std::string escape_html(std::string_view text);

}  // namespace geores
