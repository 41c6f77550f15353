#include "geores/base/pages/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "geores/base/pages/page_style.h"
#include "geores/base/pages/panels.h"

namespace geores {
namespace {

std::string paragraphs(const std::string& sentences, const char* kind) {
  std::string html;
  for (std::size_t begin = 0; begin <= sentences.size();) {
    const auto end = std::min(sentences.find('\n', begin), sentences.size());
    if (end > begin)
      html += fmt::format("<p{}>{}</p>\n", kind, escape_html(sentences.substr(begin, end - begin)));
    begin = end + 1;
  }
  return html;
}

// The drawing, named for readers that do not see it.
std::string named(std::string svg, const std::string& name) {
  if (svg.starts_with("<svg "))
    svg.insert(5, fmt::format("role=\"img\" aria-label=\"{}\" ", escape_html(name)));
  return svg;
}

std::string caption_of(const std::string& caption) {
  return caption.empty() ? "" : fmt::format("<figcaption>{}</figcaption>\n", escape_html(caption));
}

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
  return add(paragraphs(sentences, ""), sentences + "\n");
}

Document& Document::conclusion(std::string sentences) {
  return add(paragraphs(sentences, " class=\"conclusion\""), "**" + sentences + "**\n");
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
  const auto label = escape_html(caption.empty() ? name : caption);
  add(fmt::format("<figure>\n<div class=\"chart\" tabindex=\"0\" role=\"region\" "
                  "aria-label=\"{}\">{}</div>\n"
                  "{}</figure>\n",
                  label, named(svg, caption.empty() ? name : caption), caption_of(caption)),
      fmt::format("![{0}](figures/{1}.svg)\n\n{0}\n", caption, name));
  figures_.push_back({std::move(name), std::move(svg)});
  return *this;
}

Document& Document::figure(std::string name, const svg::Figure& figure, std::string caption) {
  std::string panels;
  for (const auto& panel : svg::panels_of(figure))
    panels += fmt::format("<div class=\"panel\">{}</div>\n",
                          named(svg::render(panel), panel.panels.front().title));
  add(fmt::format("<figure>\n<div class=\"panels\">\n{}</div>\n{}</figure>\n", panels,
                  caption_of(caption)),
      fmt::format("![{0}](figures/{1}.svg)\n\n{0}\n", caption, name));
  figures_.push_back({std::move(name), svg::render(figure)});
  return *this;
}

Document& Document::link(std::string name, std::string address) {
  links_ += fmt::format("<a href=\"{}\">{}</a>\n", escape_html(address), escape_html(name));
  return *this;
}

Document& Document::made_by(std::string command) {
  made_by_ = std::move(command);
  return *this;
}

std::string Document::to_html() const {
  std::string body;
  for (const auto& block : blocks_) body += block.html;
  if (!made_by_.empty()) body += "<p class=\"foot\">" + escape_html(made_by_) + "</p>\n";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n"
      "<nav "
      "aria-label=\"Pages\"><span>geores</span>\n{3}</nav>\n<h1>{0}</h1>\n{2}</main>\n</body>\n"
      "</html>\n",
      escape_html(title_), kPageStyle, body, links_);
}

std::string Document::to_markdown() const {
  auto text = "# " + title_ + "\n";
  for (const auto& block : blocks_) text += "\n" + block.markdown;
  return text;
}

}  // namespace geores
