"""The guide's code and the first example run as they are printed."""

import pathlib
import re
import runpy

ROOT = pathlib.Path(__file__).parents[2]


def test_the_code_of_the_guide_runs():
    page = (ROOT / "docs/guides/python.md").read_text()
    section = page[page.index("## Use a connection") : page.index("## Connections")]
    blocks = re.findall(r"```python\n(.*?)```", section, flags=re.S)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["h"].shape == (2, 16, 64) and names["x"].shape == (2, 16, 4, 64)


def test_the_page_lists_every_connection():
    import geores

    page = (ROOT / "docs/guides/python.md").read_text()
    listed = re.findall(r"^\| \[`(\w+)`\]", page, flags=re.M)
    assert listed == [connection["name"] for connection in geores.connections()]


def test_the_first_example_runs(capsys):
    runpy.run_path(str(ROOT / "examples/python/wrap_a_sublayer.py"), run_name="__main__")
    assert "mixer (2, 16, 4, 4)" in capsys.readouterr().out
