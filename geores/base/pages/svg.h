// A small chart writer: panels of line plots, filled histograms and heat maps in a grid, as one self-contained
// SVG text (no scripts, no fonts, no external files; white background, so it reads on dark pages
// too).
//
//   svg::Figure figure;
//   figure.title = "Loss";
//   auto& panel = figure.panels.emplace_back();
//   panel.title = "gyroscope";
//   panel.x.label = "step";
//   panel.y = {.label = "loss", .scale = svg::Scale::Log};
//   panel.series.push_back({.name = "GPT", .x = steps, .y = losses});
//   write_file_atomically("loss.svg", svg::render(figure));
//
// Series are drawn in order, later ones above earlier ones. Points that are NaN or infinite (or not
// positive on a log axis) break the line. An axis without limits takes them from the data. With
// given limits, a series that exceeds them is clipped at the frame. The legend lists each name
// once, for all panels, below the title.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace geores::svg {

// The palette of Okabe and Ito: readers without colour vision can tell the colours apart too.
inline constexpr const char* palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                          "#56b4e9", "#e69f00", "#000000", "#999999"};

enum class Scale { Linear, Log };
enum class Mark {
  Line,
  Steps,  // a filled histogram: y[i] between x[i] and x[i + 1], so x has one value more than y
  Dots
};

struct Series {
  std::string name = {};  // "" keeps it out of the legend
  std::vector<double> x = {}, y = {};
  Mark mark = Mark::Line;
  // "#rrggbb"; empty: the next of the palette; the same name gets the same colour.
  std::string color = {};
  double width = 1.8;
  std::string dash = {};  // SVG dash pattern such as "6 4"
  // Of a line: a shaded band around it, as long as y.
  std::vector<double> low = {}, high = {};
};

struct Axis {
  std::string label = {};
  Scale scale = Scale::Linear;
  double from = std::numeric_limits<double>::quiet_NaN();  // NaN: from the data
  double to = std::numeric_limits<double>::quiet_NaN();
  // Names of the values 0, 1, ..., instead of ticks; linear only.
  std::vector<std::string> names = {};
};

// A heat map: rows of cells, the first row at the bottom, cell i of a row around x = i and row j around
// y = j. Blue below 0, white at 0, red above; the full colour at ±`most`.
struct Heat {
  std::vector<std::vector<double>> rows = {};  // all of one length
  double most = 1;
  int digits = -1;    // of the number in each cell; -1: no number
  bool sums = false;  // next to each row and below each column, as cells without colour
};

struct Panel {
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<Series> series = {};
  std::string note = {};  // one small line between title and frame
  Heat heat = {};         // below the series
};

struct Figure {
  std::string title = {};
  std::string subtitle = {};  // one smaller line under the title
  std::vector<Panel> panels = {};
  int columns = 1;
  double panel_width = 360, panel_height = 240;  // with axes and titles, in pixels
};

// Throws geores::Error if there is no panel, if the sizes of x and y do not fit the mark, or if
// limits are in the wrong order or not positive on a log axis.
std::string render(const Figure& figure);

// Round values that cover [from, to], at most `most` of them. Linear: 1, 2 or 5 times a power of
// ten apart. Log: powers of ten, or over less than two decades 1, 2 and 5 times powers of ten.
// `from` < `to`.
std::vector<double> ticks(double from, double to, Scale scale, int most = 6);

}  // namespace geores::svg
