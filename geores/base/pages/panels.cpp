#include "geores/base/pages/panels.h"

#include <cstddef>
#include <iterator>
#include <map>

namespace geores::svg {

std::vector<Figure> panels_of(const Figure& figure) {
  struct Style {
    std::string color, dash;
  };
  std::map<std::string, Style> style_of;
  std::vector<Figure> result;
  for (const auto& panel : figure.panels) {
    Figure one{.panels = {panel}, .panel_width = 440, .panel_height = figure.panel_height};
    for (auto& series : one.panels.front().series) {
      const auto index = style_of.size();
      const auto& style =
          style_of
              .try_emplace(series.name, Style{palette[index % std::size(palette)],
                                              index < std::size(palette) ? "" : "4 3"})
              .first->second;
      if (!series.color.empty()) continue;
      series.color = style.color;
      if (series.dash.empty()) series.dash = style.dash;
    }
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace geores::svg
