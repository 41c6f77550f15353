"""scripts/results: what it packs, it unpacks, and a difference between archive and checksums is seen."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "results"


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPT, self.root / "scripts")
        self.study("shc-first", "0.5")
        self.study("shc-second", "0.25")
        (self.root / "runs" / "shc-second.finished").touch()

    def study(self, name, loss):
        run = self.root / "runs" / name / "runs" / "a"
        run.mkdir(parents=True, exist_ok=True)
        (run / "result.json").write_text(f'{{"loss": {loss}}}\n')

    def results(self, *arguments):
        command = [self.root / "scripts" / "results", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def archive(self):
        return self.root / "results" / "shc.tar.xz"

    def add(self, *studies):
        added = self.results("add", self.root / "runs", *studies)
        self.assertEqual(added.returncode, 0, added.stderr)

    def files(self, folder):
        root = self.root / folder
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def test_unpacks_what_it_packed(self):
        self.add("shc-first", "shc-second")
        self.assertEqual(self.results("unpack", self.root / "all").returncode, 0)
        self.assertEqual(self.files("all"), self.files("runs"))
        self.assertEqual(self.results("unpack", self.root / "one", "shc-first").returncode, 0)
        self.assertEqual(list(self.files("one")), ["shc-first/runs/a/result.json"])
        self.assertEqual(self.results("check").returncode, 0)
        tar = subprocess.run(["tar", "-tJf", self.archive()], capture_output=True, text=True)
        self.assertEqual(tar.stdout.split()[-1], "shc-second.finished")

    def test_same_files_make_the_same_bytes(self):
        self.add("shc-first", "shc-second")
        first = self.archive().read_bytes()
        (self.root / "runs" / "shc-first" / "runs" / "a" / "result.json").touch()
        self.add("shc-second")
        self.add("shc-first")
        self.assertEqual(self.archive().read_bytes(), first)

    def test_a_study_that_is_packed_again_replaces_the_earlier_one(self):
        self.add("shc-first", "shc-second")
        self.study("shc-first", "0.125")
        self.add("shc-first")
        self.assertEqual(self.results("unpack", self.root / "all").returncode, 0)
        self.assertEqual(self.files("all"), self.files("runs"))
        self.assertEqual(self.results("check").returncode, 0)

    def test_check_finds_what_differs(self):
        self.add("shc-first")
        manifest = self.root / "results" / "shc.sha256"
        line = manifest.read_text()
        for wrong in ["0" * 64 + line[64:], "", line + line.replace("result.json", "more.json")]:
            manifest.write_text(wrong)
            checked = self.results("check")
            self.assertNotEqual(checked.returncode, 0, wrong)
            self.assertIn("1 of", checked.stderr)

    def test_check_finds_a_damaged_archive(self):
        self.add("shc-first", "shc-second")
        whole = self.archive().read_bytes()
        middle = len(whole) // 2
        for damaged in [whole[:-40], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]]:
            self.archive().write_bytes(damaged)
            self.assertNotEqual(self.results("check").returncode, 0)

    def test_names_a_study_that_is_not_there(self):
        self.add("shc-first")
        unpacked = self.results("unpack", self.root / "all", "shc-third")
        self.assertNotEqual(unpacked.returncode, 0)
        self.assertIn("no study shc-third", unpacked.stderr)


if __name__ == "__main__":
    unittest.main()
