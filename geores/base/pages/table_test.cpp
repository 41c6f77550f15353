#include "geores/base/pages/table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/base/error.h"
#include "geores/base/pages/document.h"

namespace geores {
namespace {

Table example() {
  return {"Losses.", {"model", "σ", "a|b"}, {{"γ<1", "1", "x"}, {"other", "22", ""}}, {{1, 1}}};
}

TEST(Table, TextAlignsColumnsByCharactersAndMarksCells) {
  EXPECT_EQ(to_text(example()),
            "model   σ   a|b\n"
            "γ<1     1     x\n"
            "other  22*\n");
}

TEST(Table, MarkdownEscapesBarsAndSetsMarkedCellsInBold) {
  EXPECT_EQ(to_markdown(example()),
            "Losses.\n\n"
            "| model | σ | a\\|b |\n"
            "|---|---:|---:|\n"
            "| γ<1 | 1 | x |\n"
            "| other | **22** | |\n");
}

TEST(Table, HtmlIsEscaped) {
  const auto html = to_html(example());
  EXPECT_NE(html.find("<td>γ&lt;1</td>"), html.npos) << html;
  EXPECT_NE(html.find("<tr><td>other</td><td class=\"marked\">22</td>"), html.npos) << html;
}

TEST(Document, IsOnePageThatLoadsNothingAndTheSameInMarkdown) {
  Document document("a & b");
  document.heading("First").text("x < y").warning("careful").table(example());
  document.figure("loss", "<svg></svg>\n", "Loss by step");
  const auto page = document.to_html(), markdown = document.to_markdown();
  EXPECT_NE(page.find("<title>a &amp; b</title>"), page.npos);
  EXPECT_NE(page.find("<p>x &lt; y</p>"), page.npos);
  EXPECT_NE(page.find("<svg></svg>"), page.npos);
  EXPECT_EQ(page.find("http"), page.npos) << "nothing may be loaded";
  EXPECT_EQ(page.find("src="), page.npos) << "nothing may be loaded";
  EXPECT_TRUE(markdown.starts_with("# a & b\n\n## First\n\nx < y\n\n> careful\n\nLosses.\n"));
  EXPECT_NE(markdown.find("![Loss by step](figures/loss.svg)"), markdown.npos);
  ASSERT_EQ(document.figures().size(), 1u);
  EXPECT_EQ(document.figures()[0].name, "loss");
}

TEST(Table, RefusesARowOfAnotherLength) {
  auto table = example();
  table.rows[0].pop_back();
  EXPECT_THROW(to_text(table), Error);
  EXPECT_THROW(to_markdown(table), Error);
  EXPECT_THROW(to_html(table), Error);
}

TEST(Table, TheLowestOfEachColumnIsMarkedWhereverItIs) {
  const auto nan = std::nan("");
  Table table{
      "", {"", "a", "b", "c"}, {{"x", "1", "5", ""}, {"y", "2", "4", ""}, {"z", "", "4", ""}}};
  mark_lowest(table, 1, std::vector{1.0, 2.0, nan});
  mark_lowest(table, 2, std::vector{5.0, 4.0, 4.0});
  mark_lowest(table, 3, std::vector{nan, nan, nan});
  EXPECT_EQ(table.marked, (std::vector<Table::Cell>{{0, 1}, {1, 2}, {2, 2}}));
  table.rows[0][3] = "7";
  table.rows[0][1] = table.rows[1][1] = "";
  drop_empty_columns(table);  // a column before the marks
  EXPECT_EQ(table.marked, (std::vector<Table::Cell>{{1, 1}, {2, 1}}));
}

TEST(Table, ColumnsWithoutTextCanBeDroppedButForTheNames) {
  Table table{"", {"", "a", "b", "c"}, {{"", "", "1", ""}, {"", "2", "", ""}}};
  drop_empty_columns(table);
  EXPECT_EQ(table.heads, (std::vector<std::string>{"", "a", "b"}));
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"", "2", ""}));
}

}  // namespace
}  // namespace geores
