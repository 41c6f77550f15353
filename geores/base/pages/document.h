// A report of headings, sentences, tables and figures. It is written once and rendered as one
// self-contained HTML page (no scripts, no fonts, nothing loaded) or as Markdown.
//   Document document("Losses");
//   document.heading("Gyroscope").text("Ten runs.").table(table);
//   document.figure("loss", svg, "Loss by step");
//   write_file_atomically("index.html", document.to_html());
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "geores/base/pages/table.h"

namespace geores {

class Document {
 public:
  explicit Document(std::string title) : title_(std::move(title)) {}

  Document& heading(std::string text);
  Document& subheading(std::string text);
  Document& text(std::string sentences);
  Document& warning(std::string sentences);  // set apart on the page
  Document& table(Table table);
  // In Markdown the figure is a link to figures/NAME.svg; the HTML page contains the drawing
  // itself.
  Document& figure(std::string name, std::string svg, std::string caption);

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

  std::string title_;
  std::vector<Block> blocks_;
  std::vector<Figure> figures_;
  std::vector<Table> tables_;
};

}  // namespace geores
