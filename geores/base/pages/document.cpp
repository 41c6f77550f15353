#include "geores/base/pages/document.h"

#include <fmt/format.h>

namespace geores {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 Helvetica,Arial,sans-serif;color:#222;background:#fff;max-width:1060px;"
    "margin:2em auto;padding:0 1em}h1{font-size:1.6em;margin-bottom:.2em}h2{font-size:1.25em;"
    "margin-top:2em;border-top:1px solid #ccc;padding-top:.8em}h3{font-size:1.05em;margin:1.4em 0 "
    ".2em}p{max-width:54em}figure{margin:0 0 1.6em}figcaption{max-width:62em;color:#555}"
    ".warning{border-left:4px solid #d55e00;background:#fdf1e8;padding:.5em .8em;margin:.6em 0}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;margin:0 0 1.6em}"
    "th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}td.marked{font-weight:bold;background:#eef5fb}"
    "figure>svg{max-width:100%;height:auto}";

}  // namespace

Document& Document::add(std::string html, std::string markdown) {
  blocks_.push_back({std::move(html), std::move(markdown)});
  return *this;
}

Document& Document::heading(std::string text) {
  return add("<h2>" + escape_html(text) + "</h2>\n", "## " + text + "\n");
}

Document& Document::subheading(std::string text) {
  return add("<h3>" + escape_html(text) + "</h3>\n", "### " + text + "\n");
}

Document& Document::text(std::string sentences) {
  return add("<p>" + escape_html(sentences) + "</p>\n", sentences + "\n");
}

Document& Document::warning(std::string sentences) {
  return add("<div class=\"warning\">" + escape_html(sentences) + "</div>\n",
             "> " + sentences + "\n");
}

Document& Document::table(Table table) {
  add(geores::to_html(table), geores::to_markdown(table));
  tables_.push_back(std::move(table));
  return *this;
}

Document& Document::figure(std::string name, std::string svg, std::string caption) {
  add(fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", svg,
                  escape_html(caption)),
      fmt::format("![{0}](figures/{1}.svg)\n\n{0}\n", caption, name));
  figures_.push_back({std::move(name), std::move(svg)});
  return *this;
}

std::string Document::to_html() const {
  std::string body;
  for (const auto& block : blocks_) body += block.html;
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n"
      "</html>\n",
      escape_html(title_), kStyle, body);
}

std::string Document::to_markdown() const {
  auto text = "# " + title_ + "\n";
  for (const auto& block : blocks_) text += "\n" + block.markdown;
  return text;
}

}  // namespace geores
