#include "geores/base/pages/document.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "geores/base/pages/panels.h"

namespace geores {
namespace {

int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

svg::Figure two_panels() {
  svg::Figure figure{.columns = 2};
  for (const char* title : {"loss", "norm"}) {
    svg::Panel panel{.title = title};
    if (figure.panels.empty()) panel.series.push_back({.name = "first", .x = {0, 1}, .y = {1, 2}});
    panel.series.push_back({.name = "second", .x = {0, 1}, .y = {2, 3}});
    figure.panels.push_back(panel);
  }
  return figure;
}

TEST(Document, APageHasAMainPartInLightAndDark) {
  const auto page = Document("A <b> & c").text("one\ntwo").to_html();
  EXPECT_EQ(count(page, "<main>"), 1);
  EXPECT_EQ(count(page, "</main>"), 1);
  EXPECT_NE(page.find("prefers-color-scheme:dark"), page.npos);
  EXPECT_NE(page.find("<h1>A &lt;b&gt; &amp; c</h1>"), page.npos);
  EXPECT_NE(page.find("<p>one</p>\n<p>two</p>"), page.npos) << "lines are paragraphs";
}

TEST(Document, LinksTheCommandAndTheConclusionAreThereAndEscaped) {
  const auto page = Document("t")
                        .conclusion("a < b")
                        .link("R&D", "x\"y.html")
                        .made_by("geores compare <runs>")
                        .to_html();
  EXPECT_NE(page.find("<p class=\"conclusion\">a &lt; b</p>"), page.npos);
  EXPECT_NE(page.find("<a href=\"x&quot;y.html\">R&amp;D</a>"), page.npos);
  EXPECT_NE(page.find("<p class=\"foot\">geores compare &lt;runs&gt;</p>"), page.npos);
}

TEST(Document, EachPanelIsADrawingOfItsOwnWithTheFiguresColours) {
  Document document("t");
  document.figure("name", two_panels(), "A caption.");
  const auto page = document.to_html();
  EXPECT_EQ(count(page, "<div class=\"panel\">"), 2);
  EXPECT_EQ(count(page, "role=\"img\" aria-label=\"loss\""), 1);
  const auto panels = svg::panels_of(two_panels());
  ASSERT_EQ(panels.size(), 2u);
  EXPECT_EQ(panels[0].panels.front().series[1].color, panels[1].panels.front().series[0].color)
      << "“second” has one colour";
  EXPECT_NE(panels[0].panels.front().series[0].color, panels[0].panels.front().series[1].color);
  EXPECT_EQ(document.figures().front().svg, svg::render(two_panels())) << "Markdown links one file";
}

TEST(Document, WideDrawingsAndTablesAreReachedByTheKeyboard) {
  const auto page = Document("t")
                        .figure("name", "<svg width=\"900\"></svg>", "Seeds.")
                        .table({"", {"run", "loss"}, {{"a", "1"}}})
                        .to_html();
  EXPECT_NE(page.find("<div class=\"chart\" tabindex=\"0\" role=\"region\" aria-label=\"Seeds.\">"),
            page.npos);
  EXPECT_NE(page.find("<div class=\"scroll\" tabindex=\"0\" role=\"region\""), page.npos);
}

}  // namespace
}  // namespace geores
