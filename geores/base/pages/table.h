// A table of texts, written once for terminals, Markdown and pages.
//   Table table{"What a reader should know.", {"model", "loss"}, {{"additive", "3.8e-3"}}};
//   fmt::print("{}", to_text(table));
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace geores {

struct Table {
  std::string explanation;  // what a reader should know, in a sentence or two
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;  // the first cell names the row
  std::vector<std::size_t> marked = {};        // rows that stand out: bold on pages, * in texts
};

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
