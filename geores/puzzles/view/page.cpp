#include "geores/puzzles/view/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"
#include "geores/base/pages/document.h"
#include "geores/puzzles/tokens.h"
#include "geores/puzzles/view/terminal.h"

namespace geores::puzzles {
namespace {

constexpr const char* kRight = "#009e73";
constexpr const char* kWrong = "#d55e00";

// Grids next to each other in one drawing.
class Strip {
 public:
  // `label`, if not empty, marks cells of `tokens` that are scored and differ from it.
  void add(const std::string& kind, const std::string& title, std::span<const int32_t> tokens,
           int width, std::span<const int32_t> label = {}, const std::string& note_color = "") {
    const int height = static_cast<int>(tokens.size()) / std::max(1, width);
    const double cell = width > 20 ? 7 : width > 12 ? 10 : 16;
    if (x_ > 20 && x_ + width * cell > 980) {
      x_ = 8;
      top_ = bottom_ + 26;
    }
    body_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\"{}>{}</text>\n", x_, top_ - 5,
                         note_color.empty() ? "" : fmt::format(" fill=\"{}\"", note_color),
                         escape_html(title));
    for (int i = 0; i < height; ++i)
      for (int j = 0; j < width; ++j) {
        const auto at = static_cast<std::size_t>(i * width + j);
        const auto look = look_of(kind, tokens[at]);
        const double x = x_ + j * cell, y = top_ + i * cell;
        const bool wrong = !label.empty() && label[at] != kNotScored && label[at] != tokens[at];
        body_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
            "fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/>",
            x, y, cell, cell, look.background, wrong ? kWrong : "#cccccc", wrong ? "1.6" : "0.4");
        if (kind == "sudoku" && look.text[0] != '.')
          body_ += fmt::format(
              "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">"
              "{}</text>",
              x + cell / 2, y + cell * 0.78, wrong ? kWrong : look.ink,
              look.text[0] == ' ' ? "" : look.text.substr(0, 1));
      }
    const auto title_width = 6.2 * static_cast<double>(title.size());
    x_ += std::max(width * cell, title_width) + 16;
    right_ = std::max(right_, x_);
    bottom_ = std::max(bottom_, top_ + height * cell);
  }

  void add(const std::string& title, const Grid& grid) {
    std::vector<int32_t> tokens;
    for (const auto cell : grid.cells) tokens.push_back(kFirstColour + cell);
    add("arc", title, tokens, grid.width);
  }

  std::string svg() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica,Arial,sans-serif\" "
        "font-size=\"11\">\n{2}</svg>\n",
        right_, bottom_ + 8, body_);
  }

 private:
  double x_ = 8, top_ = 20, right_ = 0, bottom_ = 20;
  std::string body_;
};

int64_t wrong_cells(const std::vector<int32_t>& tokens, const std::vector<int32_t>& label) {
  int64_t wrong = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    wrong += label[i] != kNotScored && label[i] != tokens[i];
  return wrong;
}

void check(const DatasetInfo& info, const Solving& solving) {
  const auto cells = static_cast<std::size_t>(info.cells());
  const auto fits = [&](const std::vector<int32_t>& tokens) { return tokens.size() == cells; };
  require(
      fits(solving.input) && (solving.label.empty() || fits(solving.label)) &&
          std::ranges::all_of(solving.steps, fits) && solving.q_halt.size() == solving.steps.size(),
      "page", "{} does not fit a canvas of {} x {}", quote(solving.title), info.height, info.width);
}

void add_solving(Document& document, const DatasetInfo& info, const Solving& solving,
                 std::size_t number) {
  const int width = static_cast<int>(info.width);
  document.heading(solving.title);
  if (!solving.demonstrations.empty()) {
    Strip strip;
    for (std::size_t i = 0; i < solving.demonstrations.size(); ++i) {
      strip.add(fmt::format("input {}", i + 1), solving.demonstrations[i].input);
      strip.add(fmt::format("output {}", i + 1), solving.demonstrations[i].output);
    }
    document.figure(fmt::format("demonstrations-{}", number), strip.svg(), "Demonstrations.");
  }
  Strip strip;
  strip.add(info.kind, "input", solving.input, width);
  // A user's puzzle has no known answer: none of its cells is scored.
  const bool has_label =
      std::ranges::any_of(solving.label, [](int32_t token) { return token != kNotScored; });
  if (has_label) strip.add(info.kind, "answer", solving.label, width);
  for (std::size_t i = 0; i < solving.steps.size(); ++i) {
    const auto wrong = has_label ? wrong_cells(solving.steps[i], solving.label) : 0;
    const auto halting = 1 / (1 + std::exp(-solving.q_halt[i]));
    strip.add(info.kind,
              fmt::format("step {}{}, halt {:.2f}", i + 1,
                          !has_label   ? ""
                          : wrong == 0 ? ": right"
                                       : fmt::format(": {} wrong", wrong),
                          halting),
              solving.steps[i], width, solving.label,
              !has_label   ? ""
              : wrong == 0 ? kRight
                           : kWrong);
  }
  document.figure(fmt::format("puzzle-{}", number), strip.svg(),
                  solving.steps.empty() ? "The puzzle and its answer."
                  : has_label ? "The answer after each step of the recursion. Frames mark wrong "
                                "cells; cells outside the answer are not scored."
                              : "The answer after each step of the recursion.");
}

}  // namespace

std::string page_of(const DatasetInfo& info, const std::string& title,
                    std::span<const Solving> solvings) {
  Document document(title);
  document.text(
      fmt::format("{} puzzle{} of a {} data set on a canvas of {} x {}. {}", solvings.size(),
                  solvings.size() == 1 ? "" : "s", info.kind, info.height, info.width,
                  info.is_arc() ? "Colours are ARC's; dotted grey cells are end tokens." : ""));
  for (std::size_t i = 0; i < solvings.size(); ++i) {
    check(info, solvings[i]);
    add_solving(document, info, solvings[i], i + 1);
  }
  return document.to_html();
}

}  // namespace geores::puzzles
