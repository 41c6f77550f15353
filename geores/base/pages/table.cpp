#include "geores/base/pages/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "geores/base/error.h"

namespace geores {
namespace {

using Row = std::vector<std::string>;

// The width of a UTF-8 text in columns: continuation bytes take none.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void check(const Table& table) {
  for (const auto& row : table.rows)
    require(row.size() == table.heads.size(), "table", "row '{}' has {} cells under {} heads",
            row.empty() ? "" : row.front(), row.size(), table.heads.size());
}

bool is_marked(const Table& table, std::size_t row) {
  return std::find(table.marked.begin(), table.marked.end(), row) != table.marked.end();
}

std::string html_row(const Row& row, const char* tag, const std::string& attributes = "") {
  std::string html = "<tr" + attributes + ">";
  for (const auto& text : row) html += fmt::format("<{0}>{1}</{0}>", tag, escape_html(text));
  return html + "</tr>\n";
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

}  // namespace

void drop_empty_columns(Table& table) {
  for (auto c = table.heads.size(); c-- > 1;) {
    if (std::ranges::any_of(table.rows, [c](const auto& row) { return !row[c].empty(); })) continue;
    const auto offset = static_cast<std::ptrdiff_t>(c);
    table.heads.erase(table.heads.begin() + offset);
    for (auto& row : table.rows) row.erase(row.begin() + offset);
  }
}

std::string to_text(const Table& table) {
  check(table);
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.heads.size(); ++c) {
    widths.push_back(columns_of(table.heads[c]));
    for (const auto& row : table.rows) widths[c] = std::max(widths[c], columns_of(row[c]));
  }
  const auto line = [&](const Row& row) {
    std::string text;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - columns_of(row[c]), ' ');
      text += c == 0 ? row[c] + blanks : "  " + blanks + row[c];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  auto text = line(table.heads) + "\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    text += line(table.rows[r]) + (is_marked(table, r) ? "  *\n" : "\n");
  return text;
}

std::string to_markdown(const Table& table) {
  check(table);
  auto text = table.explanation.empty() ? "" : table.explanation + "\n\n";
  const auto line = [&](const Row& row, const char* around) {
    text += "|";
    for (const auto& cell : row)
      text += cell.empty() ? std::string(" |")
                           : fmt::format(" {0}{1}{0} |", around, markdown_cell(cell));
    text += "\n";
  };
  line(table.heads, "");
  text += "|";
  for (std::size_t c = 0; c < table.heads.size(); ++c) text += c == 0 ? "---|" : "---:|";
  text += "\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    line(table.rows[r], is_marked(table, r) ? "**" : "");
  return text;
}

std::string to_html(const Table& table) {
  check(table);
  std::string html;
  if (!table.explanation.empty()) html += "<p>" + escape_html(table.explanation) + "</p>\n";
  html += "<div class=\"scroll\">\n<table>\n" + html_row(table.heads, "th");
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    html += html_row(table.rows[r], "td", is_marked(table, r) ? " class=\"marked\"" : "");
  return html + "</table>\n</div>\n";
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

}  // namespace geores
