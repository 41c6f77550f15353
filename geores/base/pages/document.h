// A report of headings, sentences, tables and figures. It is written once and rendered as one
// self-contained HTML page (no scripts, no fonts, nothing loaded; light and dark) or as Markdown.
//   Document document("Losses");
//   document.heading("Gyroscope").text("Ten runs.").table(table);
//   document.figure("loss", svg, "Loss by step");
//   write_file_atomically("index.html", document.to_html());
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "geores/base/pages/svg.h"
#include "geores/base/pages/table.h"

namespace geores {

class Document {
 public:
  explicit Document(std::string title) : title_(std::move(title)) {}

  Document& heading(std::string text);
  Document& subheading(std::string text);
  Document& text(std::string sentences);        // paragraphs, separated by line breaks
  Document& conclusion(std::string sentences);  // the page's result, set larger
  Document& warning(std::string sentences);     // set apart on the page
  Document& table(Table table);
  // In Markdown the figure is a link to figures/NAME.svg; the HTML page contains the drawing
  // itself.
  Document& figure(std::string name, std::string svg, std::string caption);
  // On the page each panel is a drawing of its own: side by side, or below each other on a phone.
  Document& figure(std::string name, const svg::Figure& figure, std::string caption);
  // At the top of the page: another page, by its address from this one.
  Document& link(std::string name, std::string address);
  // At the end of the page: how it was made.
  Document& made_by(std::string command);

  std::string to_html() const;
  std::string to_markdown() const;

  struct Figure {
    std::string name, svg;
  };
  const std::vector<Figure>& figures() const { return figures_; }
  const std::vector<Table>& tables() const { return tables_; }

 private:
  struct Block {
    std::string html, markdown;
  };
  Document& add(std::string html, std::string markdown);

  std::string title_, links_, made_by_;
  std::vector<Block> blocks_;
  std::vector<Figure> figures_;
  std::vector<Table> tables_;
};

}  // namespace geores
