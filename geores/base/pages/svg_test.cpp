#include "geores/base/pages/svg.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "geores/testing/testing.h"

namespace geores::svg {
namespace {

Figure one_panel(Series series) {
  Figure figure;
  figure.panels.emplace_back().series.push_back(std::move(series));
  return figure;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_EQ(ticks(0, 1, Scale::Linear),
            (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  EXPECT_EQ(ticks(0, 10, Scale::Linear), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(-3, 41, Scale::Linear), (std::vector<double>{0, 10, 20, 30, 40}));
  EXPECT_EQ(ticks(19.2, 24.1, Scale::Linear, 5), (std::vector<double>{20, 21, 22, 23, 24}));
  EXPECT_EQ(ticks(-0.09, -0.005, Scale::Linear, 5).size(), 4u);
  for (const double from : {3.0, -8.5})
    for (double width = 1; width < 10; width += 0.01)
      for (const int most : {2, 5, 6}) {
        const auto found = ticks(from, from + width, Scale::Linear, most).size();
        EXPECT_LE(found, static_cast<size_t>(most)) << from << " " << width;
        if (most > 2) {
          EXPECT_GE(found, 2u) << from << " " << width;
        }
      }
  EXPECT_EQ(ticks(1e-3, 10, Scale::Log), (std::vector<double>{1e-3, 1e-2, 1e-1, 1, 10}));
  EXPECT_LE(ticks(1e-30, 1e30, Scale::Log).size(), 7u);
  EXPECT_GE(ticks(2, 5, Scale::Log).size(), 2u);
  const auto decade = ticks(0.006, 0.09, Scale::Log);
  ASSERT_EQ(decade.size(), 3u);
  EXPECT_NEAR(decade[0], 0.01, 1e-12);
  EXPECT_NEAR(decade[2], 0.05, 1e-12);
}

TEST(Render, PutsDataWhereTheAxesSay) {
  Figure figure = one_panel({.name = "a", .x = {0, 10}, .y = {0, 1}});
  figure.panels[0].x = {.from = 0, .to = 10};
  figure.panels[0].y = {.from = 0, .to = 1};
  // Panel 360 x 240 after an 8 pixel border, margins 52, 12, 40, 40; the legend takes 20 under 10.
  EXPECT_EQ(count(render(figure), "M60.00 230.00L356.00 70.00"), 1u);
}

TEST(Render, BreaksTheLineAtNaNAndInfinity) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  const auto text =
      render(one_panel({.name = "", .x = {0, 1, 2, 3, 4}, .y = {0, nan, 1, infinite, 2}}));
  EXPECT_EQ(text.find("nan"), text.npos);
  EXPECT_EQ(text.find("inf"), text.npos);
  const auto path = text.substr(text.find("<svg x="));
  EXPECT_EQ(count(path.substr(0, path.find("/>")), "M"), 3u);
}

TEST(Render, DrawsAHistogramAsOneClosedArea) {
  const auto text =
      render(one_panel({.name = "h", .x = {0, 1, 2}, .y = {3, 5}, .mark = Mark::Steps}));
  EXPECT_EQ(count(text, "Z\""), 1u);
}

TEST(Render, ABandIsOneClosedAreaBetweenItsEdges) {
  Series line{.x = {0, 1}, .y = {1, 1}};
  line.low = {0, 0.5};
  line.high = {2, 1.5};
  EXPECT_EQ(count(render(one_panel(line)), "fill-opacity=\"0.18\""), 1u);
  line.low = {0};
  EXPECT_EQ(refusal([&] { render(one_panel(line)); }),
            "[svg] the band of series '' has 1 and 2 values for 2 x");
}

TEST(Render, AHeatMapHasARectangleForEachCellAndItsNumber) {
  Panel panel;
  panel.heat = {.rows = {{0, 1, -1}, {0.5, 2, std::nan("")}}, .most = 1, .digits = 2};
  Figure figure;
  figure.panels = {panel};
  const auto text = render(figure);
  EXPECT_EQ(count(text, "<rect x="), 6u);
  EXPECT_EQ(count(text, "fill=\"#ffffff\""), 1u) << "0";
  EXPECT_EQ(count(text, "fill=\"#b2182b\""), 2u) << "1, and 2 as far as the colours go";
  EXPECT_EQ(count(text, "fill=\"#2166ac\""), 1u) << "-1";
  EXPECT_EQ(count(text, ">0.50<"), 1u);
  EXPECT_EQ(count(text, "nan"), 0u);
  figure.panels[0].heat.rows[0][0] = -0.004;
  EXPECT_EQ(count(render(figure), ">0.00<"), 1u) << "no -0.00";
  EXPECT_EQ(count(render(figure), "#666666"), 0u);
  figure.panels[0].heat = {.rows = {{0.25, 0.5}, {-0.125, 2}}, .digits = 3, .sums = true};
  const auto sums = render(figure);
  EXPECT_EQ(count(sums, "#666666"), 4u);
  for (const auto* sum : {">0.750<", ">1.875<", ">0.125<", ">2.500<"})
    EXPECT_EQ(count(sums, sum), 1u) << sum;
  figure.panels[0].heat.rows[1].pop_back();
  EXPECT_EQ(refusal([&] { render(figure); }), "[svg] rows of a heat map have 1 and 2 cells");
}

TEST(Render, NamesEachSeriesOnceOverAllPanelsInOneColour) {
  Figure figure;
  for (int i = 0; i < 3; ++i) {
    auto& panel = figure.panels.emplace_back();
    panel.series.push_back({.name = "first", .x = {0, 1}, .y = {0, 1}});
    panel.series.push_back({.name = "second", .x = {0, 1}, .y = {1, 0}});
  }
  const auto text = render(figure);
  EXPECT_EQ(count(text, ">first<"), 1u);
  EXPECT_EQ(count(text, "stroke=\"#0072b2\""), 4u);  // three panels and the legend
  EXPECT_EQ(count(text, "stroke=\"#d55e00\""), 4u);
}

TEST(Render, SmallNumbersOnALogAxisAreShort) {
  auto figure = one_panel({.name = "a", .x = {0, 10}, .y = {2e-4, 3e-3}});
  figure.panels[0].y.scale = Scale::Log;
  const auto text = render(figure);
  EXPECT_NE(text.find(">5e-4<"), text.npos) << text;
  EXPECT_NE(text.find(">1e-3<"), text.npos);
  EXPECT_EQ(text.find(">0.0005<"), text.npos);
}

TEST(Render, AColourThatComesAgainIsDashed) {
  Figure figure;
  auto& panel = figure.panels.emplace_back();
  for (int i = 0; i < 8; ++i)
    panel.series.push_back({.name = std::to_string(i), .x = {0, 1}, .y = {0, 1}});
  EXPECT_EQ(count(render(figure), "dasharray"), 0u);
  panel.series.push_back({.name = "ninth", .x = {0, 1}, .y = {0, 1}});
  EXPECT_EQ(count(render(figure), "dasharray"), 2u) << "in its panel and in the legend";
}

// A page may hold several figures: if two of them used the same id, one would refer to the other's
// element.
TEST(Render, UsesNoIds) {
  const auto text = render(one_panel({.name = "a", .x = {0, 10}, .y = {0, 1}}));
  EXPECT_EQ(text.find(" id="), text.npos);
  EXPECT_EQ(text.find("url("), text.npos);
}

TEST(Render, EscapesText) {
  Figure figure = one_panel({.name = "<a & \"b\">", .x = {0, 1}, .y = {0, 1}});
  figure.title = "x < y";
  const auto text = render(figure);
  EXPECT_EQ(count(text, "&lt;a &amp; &quot;b&quot;&gt;"), 1u);
  EXPECT_EQ(count(text, "x &lt; y"), 1u);
}

TEST(Render, LogAxisLeavesOutWhatIsNotPositive) {
  Figure figure = one_panel({.name = "", .x = {0, 1, 2}, .y = {0, 1e-3, 10}});
  figure.panels[0].y.scale = Scale::Log;
  const auto text = render(figure);
  EXPECT_EQ(text.find("nan"), text.npos);
  EXPECT_GE(count(text, ">0.001<") + count(text, ">0.01<"), 1u);
}

TEST(Render, NamesReplaceTicks) {
  auto figure = one_panel({.name = "a", .x = {0, 1}, .y = {0, 1}, .mark = Mark::Dots});
  figure.panels[0].x.names = {"first", "second <"};
  const auto text = render(figure);
  EXPECT_EQ(count(text, ">first<"), 1u);
  EXPECT_EQ(count(text, ">second &lt;<"), 1u);
  // Each label is in the middle of its half of the frame, which is 296 wide and starts at 60.
  EXPECT_EQ(count(text, "<text x=\"134.0\""), 1u) << text;
  EXPECT_EQ(count(text, "<text x=\"282.0\""), 1u);
}

TEST(Render, LongNamesNextToTheAxisWidenItsMargin) {
  auto figure = one_panel({.name = "a", .x = {0, 1}, .y = {0, 1}, .mark = Mark::Dots});
  figure.panels[0].y.names = {"short", "a name of thirty letters, no more"};
  const auto text = render(figure);
  // The frame starts 33 letters of 6 pixels and 12 pixels behind the panel's edge at 8; names end 6 before.
  EXPECT_EQ(count(text, "<text x=\"212.0\""), 2u) << text;
}

TEST(Render, ALongTitleOfAPanelStaysOverItsPanel) {
  auto figure = one_panel({.name = "a", .x = {0, 1}, .y = {0, 1}});
  figure.panels[0].title = "σ, a short title";
  EXPECT_EQ(count(render(figure), "font-size=\"13\""), 1u) << render(figure);
  figure.panels[0].title = std::string(80, 'x');
  const auto text = render(figure);
  EXPECT_EQ(count(text, "font-size=\"13\""), 0u);
  const auto at = text.rfind("font-size=\"", text.find(std::string(80, 'x'))) + 11;
  const auto size = std::stod(text.substr(at));
  EXPECT_LT(size * 8 / 13 * 80, figure.panel_width) << size;
  EXPECT_GT(size, 4);
}

TEST(Render, ADotIsOneDotInTheLegend) {
  const auto text = render(one_panel({.name = "a", .x = {0, 1}, .y = {0, 1}, .mark = Mark::Dots}));
  EXPECT_EQ(count(text, "<circle"), 3u) << text;
}

TEST(Render, ALogAxisHasMarginsAboveAndBelow) {
  auto figure = one_panel({.name = "a", .x = {0, 1}, .y = {1, 10}, .mark = Mark::Dots});
  figure.panels[0].y.scale = Scale::Log;
  const auto text = render(figure);
  // The frame goes from 230 up to 70, with a margin of 3 % of a decade on either side.
  EXPECT_EQ(count(text, fmt::format("cy=\"{:.2f}\"", 230 - 160 * 0.03 / 1.06)), 1u) << text;
  EXPECT_EQ(count(text, fmt::format("cy=\"{:.2f}\"", 70 + 160 * 0.03 / 1.06)), 1u);
}

TEST(Render, DotsOnALogAxisHaveMarginsLeftAndRight) {
  auto figure = one_panel({.name = "a", .x = {1, 10}, .y = {0, 1}, .mark = Mark::Dots});
  figure.panels[0].x.scale = Scale::Log;
  const auto text = render(figure);
  // The frame goes from 60 to 356, with a margin of 3 % of a decade on either side.
  EXPECT_EQ(count(text, fmt::format("cx=\"{:.2f}\"", 60 + 296 * 0.03 / 1.06)), 1u) << text;
  EXPECT_EQ(count(text, fmt::format("cx=\"{:.2f}\"", 356 - 296 * 0.03 / 1.06)), 1u);
}

TEST(Render, RoundingErrorsAreDrawnAsAConstant) {
  const auto text = render(one_panel({.name = "", .x = {0, 10}, .y = {1, 1 + 3e-7}}));
  EXPECT_EQ(count(text, ">1<"), 0u) << "ticks closer than their digits";
  EXPECT_EQ(count(text, ">1.0<"), 1u);
}

TEST(Render, CopesWithEmptyAndConstantAndHugeData) {
  EXPECT_NO_THROW(render(one_panel({.name = "empty", .x = {}, .y = {}})));
  EXPECT_NO_THROW(render(one_panel({.name = "constant", .x = {1, 1}, .y = {5, 5}})));
  const auto text = render(one_panel({.name = "huge", .x = {0, 1e300}, .y = {-1e300, 1e300}}));
  EXPECT_EQ(text.find("inf"), text.npos);
}

TEST(Render, BadInputIsRefusedInOneLine) {
  EXPECT_EQ(refusal([] { render({}); }), "[svg] a figure needs at least one panel");
  EXPECT_EQ(refusal([] {
              render(one_panel({.name = "a", .x = {0, 1}, .y = {0}}));
            }),
            "[svg] series 'a' has 2 x for 1 y");
  EXPECT_EQ(refusal([] {
              render(one_panel({.name = "h", .x = {0, 1}, .y = {0, 1}, .mark = Mark::Steps}));
            }),
            "[svg] series 'h' has 2 x for 2 y");
  auto figure = one_panel({.name = "a", .x = {0, 1}, .y = {0, 1}});
  figure.panels[0].x = {.from = 1, .to = 0};
  EXPECT_EQ(refusal([&] { render(figure); }), "[svg] an axis needs from < to, got 1 and 0");
  figure.panels[0].x = {.scale = Scale::Log, .from = -1, .to = 1};
  EXPECT_EQ(refusal([&] { render(figure); }), "[svg] a log axis must start above 0, got -1");
  figure.columns = 0;
  EXPECT_NE(refusal([&] { render(figure); }), "");
}

}  // namespace
}  // namespace geores::svg
