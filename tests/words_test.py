"""scripts/words: it finds each phrase of its table, and allows the contexts that are legitimate."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "words"

REFUSED = [
    ("page.md", "EΔ against a plus sign."),
    ("page.md", "It wins in the time of 2,000 steps of HC."),
    ("page.md", "sHC is 0.039 nats below."),
    ("page.md", "It has 3.806 nats."),
    ("page.md", "The loss after all 2,000 steps."),
    ("page.md", "A small model on books read once."),
    ("page.md", "mHC is level with sHC."),
    ("page.md", "Four streams that nothing mixes."),
    ("page.md", "Our numbers are laid beside the paper's."),
    ("page.md", "The state lies in bfloat16."),
    ("code.cpp", "const auto place = gradient_slot(x);"),
    ("code.cpp", "struct RowPlace {"),
    ("code.cpp", "// Each gradient has its place."),
    ("code.cpp", "Room room;"),
    ("code.h", "// Nobody writes to it."),
    ("code.h", "// Whoever replays it keeps it up to date."),
    ("code.h", "// For those, who may be many. Rank 0 is the one who writes."),
    ("code.h", "// What a pass computes."),
    ("code.h", "int step;  // what the mask points to"),
    ("code.h", "// Adds what the sublayer reads."),
    ("code.cpp", "if (hear_of_stop()) return;"),
    ("code.cpp", "return Choice(\"norm\", x).runs();"),
]
ALLOWED = [
    ("page.md", "The plain residual reaches 3.806, 0.039 nats lower loss."),
    ("page.md", "Updates its values in place, in place of a copy; exact to the last place."),
    ("page.md", "The papers place it before the sublayer."),
    ("page.md", "For readers who train language models."),
    ("page.md", "## What is a residual connection?"),
    ("code.cpp", "values_.emplace_back(std::move(replaced)); x.clamp_(0); step_in_place(x);"),
    ("code.h", "// What would remain? Nothing."),
    ("code.ts", "export interface Choice {"),
    ("page.css", "place-items: center;"),
]


class Words(unittest.TestCase):
    def check(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text("first line\n" + text + "\n")
            return subprocess.run([SCRIPT, path], capture_output=True, text=True)

    def test_refuses(self):
        for name, text in REFUSED:
            with self.subTest(text=text):
                checked = self.check(name, text)
                self.assertEqual(checked.returncode, 1, text)
                self.assertIn(f"{name}:2: ", checked.stdout)

    def test_allows(self):
        for name, text in ALLOWED:
            with self.subTest(text=text):
                checked = self.check(name, text)
                self.assertEqual(checked.returncode, 0, checked.stdout)


if __name__ == "__main__":
    unittest.main()
