#include "geores/base/pages/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "geores/base/error.h"

namespace geores::svg {
namespace {

constexpr double margin_left = 52, margin_right = 12, margin_top = 40, margin_bottom = 40;

std::string escape(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string text(double x, double y, const std::string& content, double size, const char* anchor,
                 const char* more = "") {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
      size, anchor, more, escape(content));
}

bool usable(double value, Scale scale) {
  return std::isfinite(value) && (scale == Scale::Linear || value > 0);
}

// An axis with final limits, and the map from data to pixels.
struct Ruler {
  Scale scale;
  double from, to;
  double begin, end;  // pixels

  double position(double value) const { return scale == Scale::Log ? std::log10(value) : value; }
  double operator()(double value) const {
    const double lo = position(from), hi = position(to);
    // Clamps far points: their distance does not matter, and the coordinates stay printable.
    return begin + (end - begin) * std::clamp((position(value) - lo) / (hi - lo), -10.0, 11.0);
  }
};

// A line may begin on the frame; a dot there would be half outside, and on the labels of the axis.
bool holds_dots(const std::vector<Series>& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const Series& series) { return series.mark == Mark::Dots; });
}

Ruler make_ruler(const Axis& axis, const std::vector<Series>& all, const Heat& heat, bool is_y,
                 double begin, double end) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto see = [&](double value) {
    if (!usable(value, axis.scale)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const auto& series : all) {
    for (const double value : is_y ? series.y : series.x) see(value);
    if (is_y && series.mark == Mark::Steps) see(0);  // the foot of the histogram
    if (is_y)
      for (const auto* edge : {&series.low, &series.high})
        for (const double value : *edge) see(value);
  }
  if (!(low <= high)) low = high = 1;  // nothing to draw
  const bool fixed_low = !std::isnan(axis.from), fixed_high = !std::isnan(axis.to);
  const auto cells = is_y ? heat.rows.size() : heat.rows.empty() ? 0 : heat.rows.front().size();
  if (!axis.names.empty() || cells > 0) {
    const double sums = heat.sums && cells > 0 ? 1 : 0;  // right of the cells, and below them
    low = -0.5 - (is_y ? sums : 0);
    high = static_cast<double>(std::max(axis.names.size(), cells)) - 0.5 + (is_y ? 0 : sums);
  } else if (axis.scale == Scale::Log) {
    if (low == high) low /= 2, high *= 2;
    if (is_y || holds_dots(all)) {
      const double margin = std::pow(high, 0.03) / std::pow(low, 0.03);  // their ratio may overflow
      low /= margin;
      high *= margin;
    }
  } else {
    // Labels have six digits: smaller differences are drawn as constant, not as noise between equal labels.
    const double least = is_y ? 1e-5 * std::max(std::abs(low), std::abs(high)) : 0;
    if (high - low <= least) {
      low -= std::max(0.5, std::abs(low) / 10);
      high += std::max(0.5, std::abs(high) / 10);
    }
    if (is_y) {
      const double margin = 0.06 * (high - low);
      if (low != 0) low -= margin;
      high += margin;
    }
  }
  if (fixed_low) low = axis.from;
  if (fixed_high) high = axis.to;
  require(std::isfinite(low) && std::isfinite(high) && low < high, "svg",
          "an axis needs from < to, got {} and {}", low, high);
  require(axis.scale == Scale::Linear || low > 0, "svg", "a log axis must start above 0, got {}",
          low);
  return {axis.scale, low, high, begin, end};
}

std::string tick_label(double value, double step, Scale scale) {
  if (scale == Scale::Log && value < 5e-3) {  // 5e-4: there is little space next to the axis
    const auto power = std::floor(std::log10(value) + 1e-9);
    return fmt::format("{:.0f}e{:.0f}", value / std::pow(10, power), power);
  }
  if (scale == Scale::Log || (value != 0 && (std::abs(value) >= 1e5 || step < 1e-4))) {
    return fmt::format("{:g}", value);
  }
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", std::abs(value) < step / 1e6 ? 0.0 : value, digits);
}

void check_series(const Series& series) {
  const auto wanted = series.y.size() + (series.mark == Mark::Steps ? 1 : 0);
  require(series.x.size() == wanted, "svg", "series '{}' has {} x for {} y", series.name,
          series.x.size(), series.y.size());
  require(series.low.size() == series.high.size() &&
              (series.low.empty() || series.low.size() == series.x.size()),
          "svg", "the band of series '{}' has {} and {} values for {} x", series.name,
          series.low.size(), series.high.size(), series.x.size());
}

// The style of a series depends on its name, so that it looks the same in all panels.
struct Style {
  std::string color, dash;
};

// Between two edges, from left to right and back.
std::string draw_band(const Series& series, const Ruler& x, const Ruler& y,
                      const std::string& color) {
  std::string path;
  const auto add = [&](std::size_t i, double value) {
    if (usable(series.x[i], x.scale) && usable(value, y.scale))
      path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", x(series.x[i]), y(value));
  };
  for (std::size_t i = 0; i < series.low.size(); ++i) add(i, series.low[i]);
  for (std::size_t i = series.high.size(); i-- > 0;) add(i, series.high[i]);
  if (path.empty()) return path;
  return fmt::format("<path d=\"{}Z\" fill=\"{}\" fill-opacity=\"0.18\" stroke=\"none\"/>\n", path,
                     color);
}

std::string heat_color(double value, double most) {
  if (!std::isfinite(value)) return "#cccccc";
  const double share = std::clamp(value / most, -1.0, 1.0), strength = std::abs(share);
  const int full[2][3] = {{33, 102, 172}, {178, 24, 43}};  // below 0, above
  const auto& end = full[share > 0];
  const auto part = [&](int i) { return static_cast<int>(255 + strength * (end[i] - 255)); };
  return fmt::format("#{:02x}{:02x}{:02x}", part(0), part(1), part(2));
}

// A value that rounds to zero has no sign.
std::string cell_number(double value, int digits) {
  return fmt::format("{:.{}f}", std::abs(value) < 0.5 * std::pow(10, -digits) ? 0 : value, digits);
}

std::string draw_cell(const Ruler& x, const Ruler& y, double column, double row,
                      const std::string& fill) {
  const double left = x(column - 0.5), top = y(row + 0.5);
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n", left,
      top, x(column + 0.5) - left, y(row - 0.5) - top, fill);
}

std::string draw_sums(const Heat& heat, const Ruler& x, const Ruler& y) {
  std::string result;
  const auto after_last = static_cast<double>(heat.rows.front().size());
  std::vector<double> columns(heat.rows.front().size(), 0);
  const auto add = [&](double column, double row, double sum) {
    result += draw_cell(x, y, column, row, "white");  // over the grid
    result += text(x(column), y(row) + 4, cell_number(sum, std::max(0, heat.digits)), 10, "middle",
                   " fill=\"#666666\"");
  };
  for (std::size_t j = 0; j < heat.rows.size(); ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      sum += heat.rows[j][i];
      columns[i] += heat.rows[j][i];
    }
    add(after_last, static_cast<double>(j), sum);
  }
  for (std::size_t i = 0; i < columns.size(); ++i) add(static_cast<double>(i), -1, columns[i]);
  return result + draw_cell(x, y, after_last, -1, "white");
}

std::string draw_heat(const Heat& heat, const Ruler& x, const Ruler& y) {
  std::string result;
  for (std::size_t j = 0; j < heat.rows.size(); ++j)
    for (std::size_t i = 0; i < heat.rows[j].size(); ++i) {
      const double value = heat.rows[j][i], column = static_cast<double>(i),
                   row = static_cast<double>(j);
      result += draw_cell(x, y, column, row, heat_color(value, heat.most));
      if (heat.digits >= 0 && std::isfinite(value))
        result += text(x(column), y(row) + 4, cell_number(value, heat.digits), 10, "middle",
                       std::abs(value) > 0.6 * heat.most ? " fill=\"white\"" : "");
    }
  if (heat.sums && !heat.rows.empty()) result += draw_sums(heat, x, y);
  return result;
}

void check_heat(const Heat& heat) {
  require(heat.most > 0, "svg", "the full colour of a heat map must be above 0, got {}", heat.most);
  for (const auto& row : heat.rows)
    require(!row.empty() && row.size() == heat.rows.front().size(), "svg",
            "rows of a heat map have {} and {} cells", row.size(), heat.rows.front().size());
}

std::string draw_line(const Series& series, const Ruler& x, const Ruler& y, const Style& style) {
  std::string path;
  bool pen_down = false;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!usable(series.x[i], x.scale) || !usable(series.y[i], y.scale)) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.2f} {:.2f}", pen_down ? "L" : "M", x(series.x[i]), y(series.y[i]));
    pen_down = true;
  }
  const auto dash =
      style.dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", escape(style.dash));
  return fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "stroke-linejoin=\"round\"{}/>\n",
      path, style.color, series.width, dash);
}

std::string draw_steps(const Series& series, const Ruler& x, const Ruler& y,
                       const std::string& color) {
  const double foot = y(y.scale == Scale::Log ? y.from : std::clamp(0.0, y.from, y.to));
  std::string path;
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    const double top = usable(series.y[i], y.scale) ? y(series.y[i]) : foot;
    path += fmt::format("{}{:.2f} {:.2f}L{:.2f} {:.2f}L{:.2f} {:.2f}", i == 0 ? "M" : "L",
                        x(series.x[i]), i == 0 ? foot : top, x(series.x[i]), top,
                        x(series.x[i + 1]), top);
  }
  if (!path.empty()) path += fmt::format("L{:.2f} {:.2f}Z", x(series.x.back()), foot);
  return fmt::format("<path d=\"{}\" fill=\"{}\" fill-opacity=\"0.45\" stroke=\"none\"/>\n", path,
                     color);
}

std::string draw_dots(const Series& series, const Ruler& x, const Ruler& y,
                      const std::string& color) {
  std::string result;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!usable(series.x[i], x.scale) || !usable(series.y[i], y.scale)) continue;
    result += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{}\" fill=\"{}\"/>\n",
                          x(series.x[i]), y(series.y[i]), series.width, color);
  }
  return result;
}

struct Tick {
  double at;
  std::string label;
};

std::vector<Tick> ticks_of(const Axis& axis, const Ruler& ruler, int most) {
  std::vector<Tick> result;
  for (std::size_t i = 0; i < axis.names.size(); ++i)
    result.push_back({static_cast<double>(i), axis.names[i]});
  if (!result.empty()) return result;
  const auto values = ticks(ruler.from, ruler.to, ruler.scale, most);
  const double step = values.size() > 1 ? values[1] - values[0] : 1;
  for (const double value : values) result.push_back({value, tick_label(value, step, ruler.scale)});
  return result;
}

// Of UTF-8.
double letters_of(const std::string& text) {
  return static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// The margin for a panel's y axis: the usual one, or a wider one for names (6 pixels a letter of
// size 11, and the axis' own label).
double left_margin(const Axis& axis) {
  std::size_t longest = 0;
  for (const auto& name : axis.names) longest = std::max(longest, name.size());
  const auto names = 6.0 * static_cast<double>(longest) + (axis.label.empty() ? 12 : 30);
  return std::max(margin_left, names);
}

std::string draw_axes(const Panel& panel, const Ruler& x, const Ruler& y) {
  std::string result;
  for (const auto& [at, label] : ticks_of(panel.x, x, 6)) {
    result += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#e4e4e4\"/>\n", x(at),
                          y.end, y.begin);
    result += text(x(at), y.begin + 15, label, 11, "middle");
  }
  for (const auto& [at, label] : ticks_of(panel.y, y, 5)) {
    result += fmt::format("<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#e4e4e4\"/>\n", x.begin,
                          y(at), x.end);
    result += text(x.begin - 6, y(at) + 4, label, 11, "end");
  }
  result +=
      fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" stroke=\"#444\"/>\n",
                  x.begin, y.end, y.begin, x.end);
  result += text((x.begin + x.end) / 2, y.begin + 32, panel.x.label, 12, "middle");
  const double middle = (y.begin + y.end) / 2;
  result += text(0, 0, panel.y.label, 12, "middle",
                 fmt::format(" transform=\"translate({:.1f} {:.1f}) rotate(-90)\"",
                             x.begin - left_margin(panel.y) + 14, middle)
                     .c_str());
  const double center = (x.begin + x.end) / 2;
  // Bold letters of size 13 are about 8 pixels wide. A title may extend above the axis, too, but not above
  // the next panel.
  const double available = x.end - x.begin + 40, wanted = 8 * letters_of(panel.title);
  result += text(center, y.end - (panel.note.empty() ? 8 : 23), panel.title,
                 std::round(130 * std::min(1.0, available / wanted)) / 10, "middle",
                 " font-weight=\"bold\"");
  if (!panel.note.empty()) {
    result += text(center, y.end - 7, panel.note, 11, "middle", " fill=\"#444\"");
  }
  return result;
}

}  // namespace

std::vector<double> ticks(double from, double to, Scale scale, int most) {
  std::vector<double> result;
  if (scale == Scale::Log) {
    const int first = static_cast<int>(std::ceil(std::log10(from) - 1e-9));
    const int last = static_cast<int>(std::floor(std::log10(to) + 1e-9));
    const int stride = std::max(1, (last - first) / most + 1);
    for (int power = first; power <= last; power += stride) result.push_back(std::pow(10, power));
    if (result.size() > 2) return result;
    result.clear();  // little more than a decade: use 1, 2 and 5 times powers of ten
    for (int power = first - 1; power <= last; ++power)
      for (const double factor : {1.0, 2.0, 5.0})
        if (const auto value = factor * std::pow(10, power);
            value >= from * (1 - 1e-9) && value <= to * (1 + 1e-9))
          result.push_back(value);
    return result.size() < 2 ? ticks(from, to, Scale::Linear, most) : result;
  }
  const double power = std::pow(10, std::floor(std::log10((to - from) / most)));
  const double slack = 1e-9 * (to - from);
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    step = factor * power;
    if (std::floor((to + slack) / step) - std::ceil((from - slack) / step) < most) break;
  }
  for (double k = std::ceil((from - slack) / step); k * step <= to + slack; ++k) {
    result.push_back(k * step);
  }
  return result;
}

std::string render(const Figure& figure) {
  require(!figure.panels.empty(), "svg", "a figure needs at least one panel");
  require(figure.columns >= 1, "svg", "a figure needs at least one column, got {}", figure.columns);
  // Colours and legend follow the names in order of first appearance. A colour used a second time
  // is dashed.
  std::map<std::string, Style> style_of;
  std::vector<const Series*> legend;
  for (const auto& panel : figure.panels) {
    check_heat(panel.heat);
    for (const auto& series : panel.series) {
      check_series(series);
      if (style_of.contains(series.name)) continue;
      const auto index = style_of.size();
      style_of[series.name] = series.color.empty() ? Style{palette[index % std::size(palette)],
                                                           index < std::size(palette) ? "" : "4 3"}
                                                   : Style{series.color, ""};
      if (!series.name.empty()) legend.push_back(&series);
    }
  }
  const auto style = [&](const Series& series) -> Style {
    const auto& named = style_of.at(series.name);
    return {escape(series.color.empty() ? named.color : series.color),
            series.dash.empty() && series.color.empty() ? named.dash : series.dash};
  };

  const int columns = std::min<int>(figure.columns, static_cast<int>(figure.panels.size()));
  const int rows = (static_cast<int>(figure.panels.size()) + columns - 1) / columns;
  const double width = columns * figure.panel_width + 16;
  double head = 10;
  std::string body;
  if (!figure.title.empty()) {
    body += text(width / 2, head + 16, figure.title, 16, "middle", " font-weight=\"bold\"");
    head += 24;
  }
  if (!figure.subtitle.empty()) {
    body += text(width / 2, head + 13, figure.subtitle, 12, "middle");
    head += 20;
  }
  if (!legend.empty()) {
    // The width of SVG text is not known here: 6.6 pixels a letter is close enough at size 12.
    std::vector<double> widths;
    for (const auto* series : legend) widths.push_back(46 + 6.6 * letters_of(series->name));
    for (std::size_t begin = 0; begin < legend.size();) {
      std::size_t end = begin;
      double line = 0;
      while (end < legend.size() && (end == begin || line + widths[end] < width))
        line += widths[end++];
      double left = (width - line) / 2;
      for (std::size_t i = begin; i < end; ++i) {
        const auto& series = *legend[i];
        const bool dots = series.mark == Mark::Dots;
        Series sample{.name = series.name,
                      .x = dots ? std::vector<double>{0.5} : std::vector<double>{0, 1},
                      .y = std::vector<double>(dots ? 1 : 2, 0.0),
                      .mark = series.mark,
                      .color = {},
                      .width = series.width,
                      .dash = series.dash};
        const double y = head + 10;
        if (series.mark == Mark::Steps) {
          body += fmt::format(
              "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"26\" height=\"10\" fill=\"{}\" "
              "fill-opacity=\"0.45\"/>\n",
              left, y - 5, style(series).color);
        } else {
          const Ruler to_x{Scale::Linear, 0, 1, left, left + 26}, to_y{Scale::Linear, -1, 1, y, y};
          body += dots ? draw_dots(sample, to_x, to_y, style(series).color)
                       : draw_line(sample, to_x, to_y, style(series));
        }
        body += text(left + 32, y + 4, series.name, 12, "start");
        left += widths[i];
      }
      head += 20;
      begin = end;
    }
  }
  const double height = head + rows * figure.panel_height + 8;

  for (std::size_t k = 0; k < figure.panels.size(); ++k) {
    const auto& panel = figure.panels[k];
    const double left = 8 + static_cast<double>(k % columns) * figure.panel_width;
    const double top = head + static_cast<double>(k / columns) * figure.panel_height;
    const auto x = make_ruler(panel.x, panel.series, panel.heat, false, left + left_margin(panel.y),
                              left + figure.panel_width - margin_right);
    const auto y = make_ruler(panel.y, panel.series, panel.heat, true,
                              top + figure.panel_height - margin_bottom, top + margin_top);
    body += draw_axes(panel, x, y);
    // A nested drawing clips without an id; ids would collide on a page with several figures. The
    // slack keeps dots on the frame whole.
    constexpr double slack = 3;
    body += fmt::format(
        "<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" "
        "viewBox=\"{0:.1f} {1:.1f} {2:.1f} {3:.1f}\">\n",
        x.begin - slack, y.end - slack, x.end - x.begin + 2 * slack, y.begin - y.end + 2 * slack);
    body += draw_heat(panel.heat, x, y);
    for (const auto& series : panel.series)
      if (!series.low.empty()) body += draw_band(series, x, y, style(series).color);
    for (const auto& series : panel.series) {
      switch (series.mark) {
        case Mark::Line:
          body += draw_line(series, x, y, style(series));
          break;
        case Mark::Steps:
          body += draw_steps(series, x, y, style(series).color);
          break;
        case Mark::Dots:
          body += draw_dots(series, x, y, style(series).color);
          break;
      }
    }
    body += "</svg>\n";
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
             "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             width, height) +
         body + "</svg>\n";
}

}  // namespace geores::svg
