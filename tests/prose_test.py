"""scripts/prose: what it counts, and that it fails above each of its limits."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "prose"
WORDS = "The plain residual reaches a lower loss than the others in each of our runs on books. "


class Prose(unittest.TestCase):
    def check(self, text, name="page.md"):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / name
            page.write_text(text)
            return subprocess.run([SCRIPT, page], capture_output=True, text=True)

    def assert_passes(self, text, name="page.md"):
        checked = self.check(text, name)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def assert_fails(self, text, reason, name="page.md"):
        checked = self.check(text, name)
        self.assertNotEqual(checked.returncode, 0, checked.stdout)
        self.assertIn(reason, checked.stderr)

    def test_numbers(self):
        self.assert_passes(WORDS + "It reaches 3.8 nats.\n")
        self.assert_fails("It reaches 3.8 nats and 2,000 steps. It has 9 seeds. " + WORDS, "numbers per 100 words")
        self.assert_fails(3 * WORDS + "It reaches 3.8, 3.9 and 4.0e-3 nats. " + 3 * WORDS, "numbers in a sentence")

    def test_what_is_no_number(self):
        self.assert_passes("The H200 runs GPT-2, mHC-V4, `--steps 200` and [a page](results/1.2.md).\n")

    def test_tables_code_and_headings_do_not_count(self):
        dense = "1 2 3 4 5 6 7 8 9"
        self.assert_passes(f"# {dense}\n\n{WORDS}\n\n| {dense} |\n|---|\n| {dense} |\n\n```\n{dense}\n```\n")

    def test_captions_count(self):
        self.assert_fails(f"{WORDS}\n\n![3.8, 3.9 and 4.0](figure.svg)\n", "numbers in a sentence")

    def test_long_paragraphs(self):
        self.assert_passes(5 * WORDS + "\n\n" + 5 * WORDS)
        self.assert_fails(6 * WORDS, "words in a paragraph")
        self.assert_passes("".join(f"- {WORDS}\n" for _ in range(6)))

    def test_readme(self):
        self.assert_passes(WORDS, "README.md")
        self.assert_fails("\n\n".join(76 * [WORDS]), "lines", "README.md")
        self.assert_fails(2 * WORDS.replace(".", ","), "words in a sentence", "README.md")


if __name__ == "__main__":
    unittest.main()
