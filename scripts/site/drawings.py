"""Draws docs/assets/drawings/*.svg: how each residual connection carries the state past the sublayer F.

drawings.py           writes the drawings
drawings.py --check   fails if a committed drawing is another one

The state flows from left to right along the top. One thick line is one stream of full width; thin lines are the
width cut into n streams; several thick lines are n streams of full width.
"""

import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "docs/assets/drawings"
WIDTH, HEIGHT, TOP, LOW = 720, 210, 58, 158

STYLE = """<style>
.sketch{--d-ink:#1d2126;--d-soft:#565c66;--d-panel:#ffffff;--d-mix:#0072b2;--d-f:#d55e00}
@media (prefers-color-scheme:dark){.sketch{--d-ink:#e9e7e2;--d-soft:#a9adb5;--d-panel:#1b1e23;--d-mix:#3c9fdc;--d-f:#ef7d22}}
[data-md-color-scheme="default"] .sketch{--d-ink:#1d2126;--d-soft:#565c66;--d-panel:#ffffff;--d-mix:#0072b2;--d-f:#d55e00}
[data-md-color-scheme="slate"] .sketch{--d-ink:#e9e7e2;--d-soft:#a9adb5;--d-panel:#1b1e23;--d-mix:#3c9fdc;--d-f:#ef7d22}
.sketch text{font:14px system-ui,sans-serif;fill:var(--d-ink);text-anchor:middle}
.sketch .note{font-size:12px;fill:var(--d-soft)} .sketch .wire{stroke:var(--d-ink);fill:none;stroke-width:1.5}
.sketch .whole{stroke:var(--d-ink);stroke-width:4;fill:none} .sketch .split{stroke:var(--d-ink);stroke-width:1.2;fill:none}
.sketch .box{fill:var(--d-panel);stroke:var(--d-ink);stroke-width:1.3} .sketch .mix{stroke:var(--d-mix);stroke-width:2}
.sketch .f{stroke:var(--d-f);stroke-width:2} .sketch .hint{stroke:var(--d-soft);stroke-dasharray:3 3;fill:none}
.sketch .head{fill:var(--d-ink)}
</style>"""

# The operators on the path of the state (mixer), before and after F, how both meet, and whether the mixer acts
# before the sublayer reads (first) or in parallel with it.
DRAWINGS = {
    "additive": dict(layout="whole", mixer=None, branch=["LN", "F"], merge="+", note="the state passes unchanged"),
    "edelta": dict(layout="split", mixer="G = γQ + (1−γ)H", first=True, branch=["LN", "H_pre", "F", "H_post"], merge="+",
                   hint="mean over positions makes u, v, β, k, γ"),
    "edelta_stream": dict(layout="split", mixer="G = γQ + (1−γ)H", first=True, branch=["H_pre", "LN", "F", "H_post"], merge="+",
                          hint="one perceptron makes u, v, β, k, γ", note="F works at the width of one stream"),
    "ddl": dict(layout="expand", mixer="I − βkkᵀ", branch=["read", "LN", "F", "k"], merge="+ βkv", note="the direction k is the output of F"),
    "ddl_pooled": dict(layout="whole", mixer="I − βkkᵀ", first=True, branch=["LN", "F"], merge="+", hint="mean over positions makes k, β"),
    "hc": dict(layout="expand", mixer="H_res", branch=["H_pre", "LN", "F", "H_post"], merge="+", hint="each stream makes its own routes", note="any matrix is allowed for the mixer"),
    "mhc": dict(layout="expand", mixer="H_res", branch=["H_pre", "LN", "F", "H_post"], merge="+", hint="all streams of a token make its routes", note="the mixer is doubly stochastic (Sinkhorn)"),
    "mhc_lite": dict(layout="expand", mixer="Σ wₘPₘ", branch=["H_pre", "LN", "F", "H_post"], merge="+", hint="all streams of a token make its routes", note="a mixture of all n! permutations"),
    "shc": dict(layout="expand", mixer="J + U Σ Vᵀ", branch=["H_pre", "LN", "F", "H_post"], merge="+", hint="all streams of a token make its routes", note="rows and columns sum to 1, spectral norm 1"),
    "mhc_split": dict(layout="split", mixer="H_res", branch=["H_pre", "tile n×", "LN", "F", "H_post"], merge="+", hint="all streams of a token make its routes", note="the mixer is doubly stochastic (Sinkhorn)"),
    "jpmhc": dict(layout="split", mixer="H_res", branch=["H_pre", "LN", "F", "H_post"], merge="+", hint="all streams of a token make its routes", note="Cayley, Sinkhorn, Grassmann or permutations"),
    "mgt": dict(layout="whole", mixer="1 − αβ", branch=["LN", "F", "gate", "β"], merge="+", hint="the token makes gate and β"),
    "isometry": dict(layout="split", mixer="G orthogonal", first=True, branch=["LN", "F"], merge="+", hint="running mean over positions makes G"),
}


def lanes(layout):
    return {"whole": [0], "split": [-9, -3, 3, 9], "expand": [-18, -6, 6, 18]}[layout]


def box(x, y, label, kind=""):
    width = max(40, 14 + 8.2 * len(label.replace("_", "")))
    height = 34
    return (f'<rect class="box {kind}" x="{x - width / 2:.1f}" y="{y - height / 2}" width="{width:.1f}" height="{height}" rx="6"/>'
            f'<text x="{x}" y="{y + 5}">{subscript(label)}</text>')


def subscript(label):
    if "_" not in label:
        return label
    head, tail = label.split("_")
    return f'{head}<tspan font-size="10" dy="4">{tail}</tspan>'


def draw(layout, branch, merge, mixer=None, first=False, hint=None, note=None):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" class="sketch">', STYLE]
    kind = "split" if layout == "split" else "whole"
    for lane in lanes(layout):
        out.append(f'<path class="{kind}" d="M34 {TOP + lane}H{WIDTH - 34}"/>')
    out.append(f'<text x="18" y="{TOP + 5}">x</text><text x="{WIDTH - 16}" y="{TOP + 5}">x′</text>')
    count = {"whole": "one stream of width D", "split": "width D cut into n streams", "expand": "n streams of width C"}[layout]
    out.append(f'<text class="note" x="34" y="{HEIGHT - 12}" style="text-anchor:start">{count}</text>')
    leave, join = (290, 610) if first else (110, 610)
    edge = max(lanes(layout))
    # The branch: down from the state, through its boxes, up to where both meet.
    tip = TOP + max(edge + 6, 15)
    out.append(f'<path class="wire" d="M{leave} {TOP + edge}V{LOW}H{join}V{tip + 6}"/>')
    out.append(f'<circle cx="{leave}" cy="{TOP + edge}" r="4" class="head"/>')
    out.append(f'<path class="head" d="M{join} {tip}l-5 10h10z"/>')
    at = [leave + (join - leave) * (i + 1) / (len(branch) + 1) for i in range(len(branch))]
    for x, label in zip(at, branch):
        out.append(box(x, LOW, label, "f" if label == "F" else "mix" if label.startswith("H_") else ""))
    radius = 13 if merge == "+" else 24
    out.append(f'<rect class="box" x="{join - radius}" y="{TOP - 13}" width="{2 * radius}" height="26" rx="13"/>'
               f'<text x="{join}" y="{TOP + 5}">{merge}</text>')
    if mixer:
        x = 180 if first else 360
        tall = 2 * edge + 24
        width = max(60, 14 + 8.2 * len(mixer.replace("_", "")))
        out.append(f'<rect class="box mix" x="{x - width / 2:.1f}" y="{TOP - tall / 2}" width="{width:.1f}" height="{tall}" rx="6"/>'
                   f'<text x="{x}" y="{TOP + 5}">{subscript(mixer)}</text>')
        if hint:
            start = 70
            out.append(f'<path class="hint" d="M{start} {TOP - edge}V16H{x}V{TOP - tall / 2}"/>'
                       f'<text class="note" x="{x + 12}" y="20" style="text-anchor:start">{hint}</text>')
    if note:
        out.append(f'<text class="note" x="{(leave + join) / 2}" y="{LOW + 40}">{note}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    wrong = []
    for name, parts in DRAWINGS.items():
        path, text = TARGET / f"{name}.svg", draw(**parts)
        if "--check" in sys.argv:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                wrong.append(str(path))
        else:
            path.write_text(text, encoding="utf-8")
    if wrong:
        sys.exit("not what drawings.py draws: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
