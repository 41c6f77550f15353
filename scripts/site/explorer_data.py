#!/usr/bin/env python3
"""Writes docs/results/explorer.json, what the explorer draws of language models and puzzles.

mixers: each sublayer's H_res, averaged over tokens, of the language models with four streams that were trained for
2,000 steps on books (docs/notebook/shc_results.md), seed 42. language: the exact validation losses of these models
by seed, and of the plain residual. Both are from results/shc.tar.xz. step: the time of a training step over that of
the plain residual (docs/measured/language_models.md). sudoku: the share of 9 × 9 sudokus solved, by mixer and seed, after
2,500 steps, and without a mixer after the steps that take as long; from results/jpmhc.tar.xz.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import decision_table

ROOT = Path(__file__).resolve().parents[2]
STUDY = "shc-arms"
PUZZLES = ("recursion-s9-clues", "recursion-s9-time")
ARMS = {
    "additive": ("additive", {}),
    "identity": ("mhc", {"mixer": "identity"}),
    "hc": ("hc", {}),
    "mhc": ("mhc", {"mixer": "sinkhorn"}),
    "mhc_lite": ("mhc_lite", {}),
    "shc": ("shc", {}),
}


def runs_of(folder, arm):
    connection, options = ARMS[arm]
    found = []
    for path in sorted((folder / "runs").glob(f"text-{connection}-*/config.json")):
        config = json.loads(path.read_text())
        if all(config.get(key) == value for key, value in options.items()):
            found.append((config["seed"], path.parent))
    assert len(found) == 3, f"{arm}: {len(found)} runs, not three seeds"
    return dict(found)


def mixers_of(folder, arm):
    diagnostics = folder / "diagnostics" / f"{runs_of(folder, arm)[42].name}.json"
    layers = json.loads(diagnostics.read_text())["end"]["mixers"]["layers"]
    return [[round(value, 5) for value in layer["mean"]] for layer in layers]


def loss_of(run):
    return round(json.loads((run / "result.json").read_text())["exact_validation"], 5)


def solved(folder):
    arms = {}
    for path in sorted((folder / "runs").glob("*/result.json")):
        arms.setdefault(path.parent.name.rpartition("-")[0], []).append(json.loads(path.read_text())["evaluation"]["exact"])
    return arms


def main():
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([ROOT / "scripts/results", "unpack", scratch, STUDY, *PUZZLES], check=True, stdout=subprocess.DEVNULL)
        folder = Path(scratch) / STUDY
        clues, time = (Path(scratch) / name for name in PUZZLES)
        table = {
            "language": {arm: [loss_of(run) for run in runs_of(folder, arm).values()] for arm in ARMS},
            "step": {name: float(ratio) for name, ratio in decision_table.ratios().items()},
            "sudoku": solved(clues) | {"none, equal time": solved(time)["none"]},
            "mixers": {arm: mixers_of(folder, arm) for arm in ("hc", "mhc", "mhc_lite", "shc")},
        }
    path = ROOT / "docs/results/explorer.json"
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in table.items())
    path.write_text("{\n" + lines + "\n}\n")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
