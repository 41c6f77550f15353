#!/usr/bin/env python3
"""What the pages of docs/ say of the sources: links to files, code spans `path/file.h:name`, and the parts of the pages
of connections. The site's hooks use it for its links; run as a program it checks all pages and needs no MkDocs."""

import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
NAMED = re.compile(r"`((?:geores|cli|tests|scripts|web)/[\w/.-]+\.\w+)(?::([\w:~.]+))?`(?!\])")


def outside(page_path, link):
    """The file outside docs/ that a link of a page means, or None."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page_path), link))
    return None if path.startswith("docs/") else path


def line_of(path, name):
    """The line of a source that defines a name, or None. Of a test source: the test of that name."""
    word = re.escape(name.split("::")[-1].split(".")[-1])
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    if path.endswith("_test.cpp"):
        patterns = [rf"^\s*(TYPED_)?TEST(_F|_P)?\(\w+,\s*{word}\)"]
        lines = [f"{line}{after}" for line, after in zip(lines, lines[1:] + [""])]  # a name may be wrapped
    else:
        patterns = [rf"^(?!\s*//)[\w:<>,&*\s\[\]]*\b{word}\([^;]*$", rf"^(?!\s*//).*\b{word}\(", rf"^\s*(class|struct) {word}\b", rf"^def {word}\b"]
        if "::" in name:  # a member defined outside its class, before others of its last name
            patterns.insert(0, rf"^(?!\s*//).*\b{re.escape(name)}\(")
    for pattern in patterns:
        for number, line in enumerate(lines, 1):
            if re.search(pattern, line):
                return number
    return None


PARTS = ["Start", "Invariants", "Options", "Cost", "What published code does differently", "Equation, code, test"]


def connection_problems(markdown):
    """A page of a connection has all its parts, and a test in every row of its last table."""
    headings = re.findall(r"^## (.*)$", markdown, flags=re.M)
    if headings != PARTS:
        yield f"the parts are {headings}, not {PARTS}"
    rows = markdown.partition("## Equation, code, test")[2].strip().splitlines()[2:]
    for row in (row for row in rows if row.startswith("|")):
        cells = row.replace("\\|", "").strip("|").split("|")
        if len(cells) != 3 or not NAMED.search(cells[1]) or "_test.cpp:" not in cells[2]:
            yield f"a row without code or test: {row}"


def problems(page, markdown):
    """What is wrong with the references of one page, whose path is relative to docs/."""
    if page.startswith("understand/connections/"):
        yield from connection_problems(markdown)
    text = re.sub(r"^```.*?^```\s*$", "", markdown, flags=re.M | re.S)  # fenced blocks stay as they are
    for match in LINK.finditer(text):
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), match[2]))
        if "://" not in match[2] and not match[2].startswith(("mailto:", "/")) and not (ROOT / target).exists():
            yield f"links to {target}, which is not there"
    for path, name in NAMED.findall(text):
        if not (ROOT / path).is_file():
            if name or not page.startswith("extend/"):  # guides there name files that a reader will write
                yield f"names {path}, which is not a file of the repository"
        elif name and line_of(path, name) is None:
            yield f"names {name} in {path}, which is not there"


def main():
    found = [
        f"docs/{page}: {problem}"
        for file in sorted((ROOT / "docs").rglob("*.md"))
        for page in [file.relative_to(ROOT / "docs").as_posix()]
        for problem in problems(page, file.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or "every reference of docs/ is there")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
