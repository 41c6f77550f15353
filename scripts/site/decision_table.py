"""Checks the numbers of the table in docs/start/which_connection.md against their sources.

"loss" is the mean over seeds of the exact validation loss in results/shc.tar.xz. "step" is the time of a step over
that of `additive`, both at one commit, in the table of docs/measured/language_models.md.
"""

import json
import re
import statistics
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = {  # row of the table -> study, options of its runs
    "additive": ("shc-arms", dict(connection="additive", branch_power=0.0)),
    "additive --branch-power 0.5": ("shc-full", dict(connection="additive", branch_power=0.5)),
    "mhc --mixer identity": ("shc-arms", dict(connection="mhc", mixer="identity")),
    "hc": ("shc-arms", dict(connection="hc")),
    "mhc": ("shc-arms", dict(connection="mhc", mixer="sinkhorn")),
    "mhc_lite": ("shc-arms", dict(connection="mhc_lite")),
    "shc": ("shc-arms", dict(connection="shc")),
}


def exact_losses():
    with tarfile.open(ROOT / "results/shc.tar.xz") as archive:
        texts = {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive
                 if m.isfile() and re.search(r"shc-(arms|full)/runs/[^/]+/(config|result)\.json$", m.name)}
    runs = {}
    for name in texts:
        if name.endswith("config.json"):
            result = json.loads(texts[name.replace("config.json", "result.json")])
            runs[name] = (json.loads(texts[name]), result["exact_validation"])
    means = {}
    for row, (study, wanted) in ROWS.items():
        losses = [loss for name, (config, loss) in runs.items()
                  if name.startswith(study + "/") and all(config.get(key) == value for key, value in wanted.items())]
        if len(losses) != 3:
            sys.exit(f"{row}: {len(losses)} runs in {study}, not three seeds")
        means[row] = f"{statistics.mean(losses):.3f}"
    return means


def cells(line):
    return [cell.strip().replace("*", "") for cell in line.strip().strip("|").split("|")]


def ratios():
    text = (ROOT / "docs/measured/language_models.md").read_text(encoding="utf-8")
    section = text.partition("## A step of 124M parameters")[2].partition("\n## ")[0]
    rows = [cells(line) for line in section.splitlines() if line.startswith("| ")]
    head = rows[0]
    times = {re.match(r"`(\w+)`", row[0])[1]: dict(zip(head[1:], row[1:])) for row in rows[1:] if row[0].startswith("`")}

    def number(text):
        return float(text.split(" ")[0]) if text else None

    found = {}
    for name, row in times.items():
        for column in ("ms a step", "64ef4b6"):  # the newest that has both
            mine, plain = number(row[column]), number(times["additive"][column])
            if mine and plain and name not in found:
                found[name] = f"{mine / plain:.2f}".removesuffix(".00")
    return found


def main():
    losses, steps = exact_losses(), ratios()
    page = (ROOT / "docs/start/which_connection.md").read_text(encoding="utf-8")
    wrong, checked = [], 0
    for line in page.partition("## Cost and evidence")[2].partition("\n## ")[0].splitlines():
        if not line.startswith("| "):
            continue
        name, loss, step = cells(line)[:3]
        name = re.sub(r"\[`(\w+)`\]\([^)]*\)", r"\1", name).replace("`", "").removesuffix(", causal")
        for what, printed, source in (("loss", loss, losses.get(name)), ("step", step, steps.get(name))):
            if source is not None:
                checked += 1
                if printed != source:
                    wrong.append(f"{name}: {what} {printed}, its source has {source}")
    if wrong or checked < len(ROWS) + 8:
        sys.exit("docs/start/which_connection.md\n" + "\n".join(wrong or [f"only {checked} numbers were found"]))


if __name__ == "__main__":
    main()
