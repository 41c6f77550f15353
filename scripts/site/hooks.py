"""What MkDocs does not do by itself for the site (mkdocs.yml):

- links to sources outside docs/ lead to a page of the source inside the site;
- a code span `path/file.h:name` becomes a link to the line that names it;
- search works from file://, where a page may neither fetch its index nor start a worker from a URL;
- formulas are set when the site is built (maths.mjs), so a page needs no script for them;
- `<!-- header: FILE -->` becomes the text at the head of a header;
- the explorer and KaTeX's style are copied into the site.
"""

import html
import itertools
import json
import logging
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

sys.path.insert(0, str(Path(__file__).parent))
from references import LINK, NAMED, line_of, outside, problems  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KATEX = Path("/usr/share/javascript/katex")
EXPLORER = ROOT / "build/web/explorer.html"

log = logging.getLogger("mkdocs.site")
source_pages = {}  # path in the repository -> address in the site
scratch = tempfile.TemporaryDirectory()


def source_page(path):
    """A page with the text of a source, numbered lines with anchors."""
    text = (ROOT / path).read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path, text)
    except ClassNotFound:
        lexer = TextLexer()
    body = highlight(text, lexer, HtmlFormatter(linenos=False, lineanchors="line", anchorlinenos=False))
    up = "../" * (path.count("/") + 1)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(path)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="{up}assets/favicon.svg">'
        f'<link rel="stylesheet" href="{up}assets/source.css"></head><body>'
        f'<h1><a href="{up}index.html">geores</a> / {html.escape(path)}</h1>{body}</body></html>'
    )


def on_files(files, config):
    wanted = set()
    for file in files.documentation_pages():
        text = Path(file.abs_src_path).read_text(encoding="utf-8")
        links = (outside(file.src_path, match[2]) for match in LINK.finditer(text))
        wanted.update(path for path in links if path)
        # A bare path may be an example; one with a name after it must be there.
        wanted.update(m[1] for m in NAMED.finditer(text) if m[2] or (ROOT / m[1]).is_file())
    for path in sorted(wanted):
        if not (ROOT / path).is_file():
            continue  # problems() reports it
        address = f"source/{path}.html"
        target = Path(scratch.name) / address
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source_page(path), encoding="utf-8")
        files.append(File(address, scratch.name, config["site_dir"], False))
        source_pages[path] = address
    if EXPLORER.exists():
        (Path(scratch.name) / "explorer.html").write_bytes(EXPLORER.read_bytes())
        files.append(File("explorer.html", scratch.name, config["site_dir"], False))
    return files


def on_page_markdown(markdown, page, config, files):
    here = posixpath.dirname(page.file.src_path)

    def address(path, anchor=""):
        return posixpath.relpath(source_pages[path], here or ".") + anchor

    def link(match):
        path = outside(page.file.src_path, match[2])
        if path not in source_pages:
            return match[0]
        return match[1] + address(path, match[3] or "") + match[4]

    def named(match):
        path, name = match[1], match[2]
        if path not in source_pages:
            return match[0]
        number = line_of(path, name) if name else None
        return f"[`{name or path}`]({address(path, f'#line-{number}' if number else '')})"

    def outside_code(text):
        return NAMED.sub(named, LINK.sub(link, text))

    markdown = re.sub(r"<!-- header: (\S+) -->", head_comment, markdown)
    for problem in problems(page.file.src_path, markdown):
        log.warning(f"{page.file.src_path}: {problem}")
    # Fenced blocks stay as they are.
    parts = re.split(r"(^```.*?^```\s*$)", markdown, flags=re.M | re.S)
    markdown = "".join(part if part.startswith("```") else outside_code(part) for part in parts)
    if page.file.src_path == "guides/explorer.md":
        markdown = markdown.replace("<!-- explorer -->", explorer_link(), 1)
    return markdown


def on_page_content(content, page, config, files):
    """Drawings of ours become part of the page, so that they follow its theme."""

    def inline(match):
        address = re.search(r'src="([^"]+)"', match[0])[1]
        text = html.unescape(re.search(r'alt="([^"]*)"', match[0])[1])
        path = ROOT / posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_path), address))
        svg = path.read_text(encoding="utf-8")
        named = f'<svg role="img" aria-label="{html.escape(text, quote=True)}" '
        return f'<span class="drawing">{svg.replace("<svg ", named, 1)}</span>'

    if page.file.src_path.startswith("understand/connections/"):
        # Long names may break between their words.
        content = re.sub(
            r"(<td><a [^>]*><code>)(\w+(?:::\w+)?)(</code>)",
            lambda match: match[1] + re.sub(r"(?<=[a-z\d:_])(?=[A-Z])|(?<=_)", "<wbr>", match[2]) + match[3],
            content,
        )
    content = re.sub(r"<code>([^<\n]{1,28})</code>", r'<code class="short">\1</code>', content)
    return re.sub(r'<img[^>]*src="[^"]*(?:assets/drawings/\w+|loss_against_time)\.svg"[^>]*>', inline, content)


def head_comment(match):
    """The text at the head of a header, as the page shows it."""
    lines = (ROOT / match[1]).read_text(encoding="utf-8").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("//"), lines)
    return "```text\n" + "\n".join(line[3:] for line in comment) + "\n```"


def explorer_link():
    if EXPLORER.exists():
        return "[Open the explorer](../explorer.html){ .md-button .md-button--primary }"
    return "This copy of the site was built without the explorer: `scripts/explore --build` makes it, then `scripts/docs`."


def offline_search(site):
    """The index and the worker as one script, which a page opened from file:// loads."""
    index = (site / "search/search_index.json").read_text(encoding="utf-8")
    workers = list((site / "assets/javascripts/workers").glob("search.*.min.js"))
    if len(workers) != 1:
        raise PluginError("the theme has no search worker where this hook expects it")
    worker = json.dumps(workers[0].read_text(encoding="utf-8"))
    (site / "search/offline.js").write_text(
        f"var __search={{index:Promise.resolve({index}),"
        f"worker:URL.createObjectURL(new Blob([{worker}],{{type:'text/javascript'}}))}}",
        encoding="utf-8",
    )


def on_post_build(config):
    site = Path(config["site_dir"])
    offline_search(site)
    katex = site / "assets/katex"
    katex.mkdir(parents=True, exist_ok=True)
    shutil.copy(KATEX / "katex.min.css", katex)
    for font in (KATEX / "fonts").glob("*.woff2"):  # the first format that the style names
        (katex / "fonts").mkdir(exist_ok=True)
        shutil.copy(font, katex / "fonts")
    maths = subprocess.run(["node", ROOT / "scripts/site/maths.mjs", KATEX / "katex.min.js", site])
    if maths.returncode:
        raise PluginError("a formula has an error")
    for leftover in site.rglob("*.map"):
        leftover.unlink()
