"""Checks every link of the built site and of pages outside it:  check_links.py SITE FILE.md ...

A link must lead to a file that is there and, if it names an anchor, to an element with that id. Links to
the network are not followed, but no page may load anything from there.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import markdown

LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("object", "data")}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        for name in ("id", "name"):
            if named.get(name):
                self.ids.add(named[name])
        for name in ("href", "src", "data"):
            if named.get(name) is not None and (tag, name) != ("link", "canonical"):
                self.links.append((tag, name, named[name]))

    handle_startendtag = handle_starttag


def github_ids(text):
    """Anchors of a Markdown file as GitHub makes them."""
    ids = set()
    for line in re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).splitlines():
        heading = re.match(r"#+\s+(.*)", line)
        if heading:
            title = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading[1].strip())
            ids.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return ids


pages = {}


def ids_of(path):
    if path not in pages:
        text = path.read_text(encoding="utf-8", errors="replace")
        pages[path] = github_ids(text) if path.suffix == ".md" else Page(text).ids
    return pages[path]


def check(origin, tag, name, link):
    """What is wrong with one link, or None."""
    parts = urlsplit(link)
    if parts.scheme in ("http", "https") or parts.netloc:
        return "loads from the network" if (tag, name) in LOADS else None
    if parts.scheme in ("mailto", "data", "javascript"):
        return None
    target = origin if not parts.path else (origin.parent / unquote(parts.path)).resolve()
    if target.is_dir() and origin.suffix == ".html":
        target = target / "index.html"
    if not target.exists():
        return "leads nowhere"
    # Material's 404 page and numbered lines of scripts aside, an anchor is an id.
    if parts.fragment and target.suffix in (".html", ".md") and unquote(parts.fragment) not in ids_of(target):
        if not parts.fragment.startswith("__"):
            return "has no such anchor"
    return None


def main(site, *others):
    checked, wrong = 0, []
    for path in sorted(Path(site).resolve().rglob("*.html")):
        if path.name in ("404.html", "explorer.html"):  # absolute links; one page with tests of its own
            continue
        page = Page(path.read_text(encoding="utf-8"))
        pages[path] = page.ids
        for tag, name, link in page.links:
            checked += 1
            problem = check(path, tag, name, link)
            if problem:
                wrong.append(f"{path.relative_to(Path(site).resolve())}: {link} {problem}")
    for name in others:
        path = Path(name).resolve()
        # Links as Markdown sees them, pictures and HTML included.
        page = Page(markdown.markdown(path.read_text(encoding="utf-8"), extensions=["tables", "fenced_code"]))
        for tag, attribute, link in page.links:
            checked += 1
            problem = check(path, "a", attribute, link)
            if problem:
                wrong.append(f"{name}: {link} {problem}")
    print("\n".join(wrong + [f"{checked} links checked, {len(wrong)} broken"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
