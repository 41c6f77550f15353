"""Draws docs/start/loss_against_time.svg from the packed runs of results/shc.tar.xz.

loss_against_time.py           writes the drawing
loss_against_time.py --check   fails if the committed drawing is another one

Each curve is the mean of three seeds (one for the longer training of `additive`): validation loss on random
batches at the evaluations of a run, against steps times the median time of a step. Most of these runs shared
a GPU, so the times are those of runs of the same model that had it alone.
"""

import json
import statistics
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs/start/loss_against_time.svg"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 430, 58, 18, 210, 48
TIME, LOSS = (0, 140), (3.75, 5.05)  # seconds, nats

# label, class of the line, options of the run, study of the losses, study of the time of a step
ARMS = [
    ("plain residual", "additive", dict(connection="additive", branch_power=0.0), "shc-arms", "shc-streams"),
    ("plain residual, branches / √l", "root", dict(connection="additive", branch_power=0.5), "shc-full", "shc-full"),
    ("four streams, H_res = I", "identity", dict(connection="mhc", mixer="identity"), "shc-arms", "shc-arms"),
    ("hc", "hc", dict(connection="hc"), "shc-arms", "shc-streams"),
    ("shc", "shc", dict(connection="shc"), "shc-arms", "shc-streams"),
    ("mhc", "mhc", dict(connection="mhc", mixer="sinkhorn"), "shc-arms", "shc-streams"),
    ("mhc_lite", "lite", dict(connection="mhc_lite"), "shc-arms", "shc-streams"),
    ("plain residual, 3,500 steps", "longer", dict(connection="additive", branch_power=0.0), "shc-full-time", "shc-streams"),
]


def read_runs():
    """All runs of the shape of the comparison: study, config, evaluations, milliseconds of each step."""
    runs = []
    with tarfile.open(ROOT / "results/shc.tar.xz") as archive:
        files = {m.name.removeprefix("./"): m for m in archive if m.isfile() and m.name.endswith(("config.json", "metrics.jsonl"))}
        texts = {name: archive.extractfile(member).read().decode() for name, member in files.items()}
    for name in sorted(texts):
        study, _, rest = name.partition("/")
        if not rest.startswith("runs/") or not name.endswith("config.json"):
            continue
        config = json.loads(texts[name])
        lines = [json.loads(line) for line in texts[name.replace("config.json", "metrics.jsonl")].splitlines()]
        tokens = config["batch"] * config["context"]
        if (config["width"], config["layers"], tokens) != (384, 12, 65536):
            continue
        times = [1000 * tokens / line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
        losses = {line["step"]: line["validation"] for line in lines if "validation" in line}
        runs.append((study, config, losses, times[5:]))
    return runs


def matches(config, wanted):
    return all((config.get(key) or 0.0 if key == "branch_power" else config.get(key)) == value for key, value in wanted.items())


def curve(runs, wanted, study, timed):
    """Points (seconds, mean loss), the number of seeds, ms a step."""
    losses = [run[2] for run in runs if run[0] == study and matches(run[1], wanted)]
    # A run that shared the GPU has a larger median: the smallest is of one that had it alone.
    step = min(statistics.median(run[3]) for run in runs
               if run[0] == timed and matches(run[1], wanted) and run[1]["streams"] == 4)
    steps = sorted(set.intersection(*(set(one) for one in losses)))
    return [(s * step / 1000, statistics.mean(one[s] for one in losses)) for s in steps], len(losses), step


def x_of(seconds):
    return LEFT + (seconds - TIME[0]) / (TIME[1] - TIME[0]) * (WIDTH - LEFT - RIGHT)


def y_of(loss):
    return TOP + (LOSS[1] - loss) / (LOSS[1] - LOSS[0]) * (HEIGHT - TOP - BOTTOM)


def draw(curves):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" class="plot">', STYLE]
    for seconds in range(0, 141, 20):
        out.append(f'<path class="grid" d="M{x_of(seconds):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
                   f'<text x="{x_of(seconds):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{seconds}</text>')
    for tenth in range(38, 51, 2):
        y = y_of(tenth / 10)
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
                   f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">seconds of training on one H200</text>')
    out.append(f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">validation loss, nats a token</text>')
    for row, (label, name, points, seeds, step) in enumerate(curves):
        shown = [(x_of(s), y_of(loss)) for s, loss in points if loss <= LOSS[1]]
        out.append(f'<polyline class="line {name}" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in shown) + '"/>')
        out.append(f'<circle class="dot {name}" cx="{shown[-1][0]:.1f}" cy="{shown[-1][1]:.1f}" r="3.5"/>')
        y = TOP + 16 + 46 * row
        x = WIDTH - RIGHT + 18
        out.append(f'<path class="line {name}" d="M{x} {y - 4}h20"/><text class="name" x="{x + 27}" y="{y}">{label}</text>'
                   f'<text class="soft" x="{x + 27}" y="{y + 16}">{step:.0f} ms a step, ends at {points[-1][1]:.3f}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


STYLE = """<style>
.plot{--p-ink:#1d2126;--p-soft:#565c66;--p-grid:#e4e1d9;--p-additive:#6b7280;--p-hc:#8a6d5a;--p-mhc:#00885f;--p-lite:#b87d00;--p-shc:#2f8fc8;--p-identity:#b8588f}
@media (prefers-color-scheme:dark){.plot{--p-ink:#e9e7e2;--p-soft:#a9adb5;--p-grid:#2a2e35;--p-additive:#9aa1ad;--p-hc:#b89880;--p-mhc:#14b88a;--p-lite:#e69f00;--p-shc:#56b4e9;--p-identity:#d98bb6}}
[data-md-color-scheme="default"] .plot{--p-ink:#1d2126;--p-soft:#565c66;--p-grid:#e4e1d9;--p-additive:#6b7280;--p-hc:#8a6d5a;--p-mhc:#00885f;--p-lite:#b87d00;--p-shc:#2f8fc8;--p-identity:#b8588f}
[data-md-color-scheme="slate"] .plot{--p-ink:#e9e7e2;--p-soft:#a9adb5;--p-grid:#2a2e35;--p-additive:#9aa1ad;--p-hc:#b89880;--p-mhc:#14b88a;--p-lite:#e69f00;--p-shc:#56b4e9;--p-identity:#d98bb6}
.plot text{font:12px system-ui,sans-serif;fill:var(--p-ink)} .plot .soft{fill:var(--p-soft);font-size:11px}
.plot .grid{stroke:var(--p-grid);fill:none} .plot .line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.plot .additive,.plot .root,.plot .longer{stroke:var(--p-additive)} .plot .root{stroke-dasharray:2 3} .plot .longer{stroke-dasharray:7 4}
.plot .hc{stroke:var(--p-hc)} .plot .mhc{stroke:var(--p-mhc)} .plot .lite{stroke:var(--p-lite)} .plot .shc{stroke:var(--p-shc)} .plot .identity{stroke:var(--p-identity)}
.plot .dot{fill:currentColor;stroke:none} .plot .dot.additive,.plot .dot.root,.plot .dot.longer{fill:var(--p-additive)} .plot .dot.hc{fill:var(--p-hc)} .plot .dot.mhc{fill:var(--p-mhc)} .plot .dot.lite{fill:var(--p-lite)} .plot .dot.shc{fill:var(--p-shc)} .plot .dot.identity{fill:var(--p-identity)}
</style>"""


def main():
    runs = read_runs()
    curves = []
    for label, name, wanted, study, timed in ARMS:
        points, seeds, step = curve(runs, wanted, study, timed)
        curves.append((label, name, points, seeds, step))
        print(f"{label}: {seeds} seeds, {step:.1f} ms a step, {points[-1][0]:.0f} s, {points[-1][1]:.3f}")
    text = draw(curves)
    if "--check" in sys.argv:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET} is not what {Path(__file__).name} draws")
        return
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
