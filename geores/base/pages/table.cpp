#include "geores/base/pages/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

bool is_marked(const Table& table, std::size_t row, std::size_t column) {
  return std::ranges::find(table.marked, Table::Cell{row, column}) != table.marked.end();
}

bool has_marks(const Table& table, std::size_t column) {
  return std::ranges::any_of(table.marked, [&](const auto& cell) { return cell.column == column; });
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
    std::erase_if(table.marked, [c](const auto& cell) { return cell.column == c; });
    for (auto& cell : table.marked) cell.column -= cell.column > c;
  }
}

void mark_lowest(Table& table, std::size_t column, std::span<const double> values) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const double value : values) lowest = std::fmin(lowest, value);
  if (!std::isfinite(lowest)) return;
  for (std::size_t row = 0; row < values.size(); ++row)
    if (values[row] == lowest) table.marked.push_back({row, column});
}

std::string to_text(const Table& table) {
  check(table);
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.heads.size(); ++c) {
    widths.push_back(columns_of(table.heads[c]));
    for (const auto& row : table.rows) widths[c] = std::max(widths[c], columns_of(row[c]));
  }
  const auto line = [&](const Row& row, const auto& is_marked) {
    std::string text;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - columns_of(row[c]), ' ');
      text += c == 0 ? row[c] + blanks : "  " + blanks + row[c];
      if (has_marks(table, c)) text += is_marked(c) ? '*' : ' ';
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  auto text = line(table.heads, [](std::size_t) { return false; });
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    text += line(table.rows[r], [&](std::size_t c) { return is_marked(table, r, c); });
  return text;
}

std::string to_markdown(const Table& table) {
  check(table);
  auto text = table.explanation.empty() ? "" : table.explanation + "\n\n";
  const auto line = [&](const Row& row, const auto& is_marked) {
    text += "|";
    for (std::size_t c = 0; c < row.size(); ++c)
      text += row[c].empty()
                  ? std::string(" |")
                  : fmt::format(" {0}{1}{0} |", is_marked(c) ? "**" : "", markdown_cell(row[c]));
    text += "\n";
  };
  line(table.heads, [](std::size_t) { return false; });
  text += "|";
  for (std::size_t c = 0; c < table.heads.size(); ++c) text += c == 0 ? "---|" : "---:|";
  text += "\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    line(table.rows[r], [&](std::size_t c) { return is_marked(table, r, c); });
  return text;
}

std::string to_html(const Table& table) {
  check(table);
  std::string html;
  if (!table.explanation.empty()) html += "<p>" + escape_html(table.explanation) + "</p>\n";
  html += fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: "
      "{}\">\n<table>\n<tr>",
      table.heads.empty() ? "" : escape_html(table.heads.front()));
  for (const auto& head : table.heads)
    html += fmt::format("<th scope=\"col\">{}</th>", escape_html(head));
  html += "</tr>\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    html += "<tr>";
    for (std::size_t c = 0; c < table.rows[r].size(); ++c)
      html += fmt::format("<td{}>{}</td>", is_marked(table, r, c) ? " class=\"marked\"" : "",
                          escape_html(table.rows[r][c]));
    html += "</tr>\n";
  }
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
