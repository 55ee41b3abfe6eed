"""The page that tools/kv_quality.py makes of kv_quality.csv."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOL = HERE.parent.parent / "tools/kv_quality.py"
SMOLLM2 = "SmolLM2 135M, Q4_1 (heads of 64)"


class Page(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        subprocess.run([sys.executable, "-B", TOOL, "--report", "--csv",
                        HERE / "kv_quality.csv", "--out", cls.folder],
                       check=True)
        cls.page = (cls.folder / "kv_quality.md").read_text("utf-8")

    def tables_under(self, heading):
        section = self.page.split(f"## {heading}\n")[1].split("\n## ")[0]
        return [[line.strip("| ").split(" | ") for line in lines.splitlines()
                 if line.startswith("| ")][2:]
                for lines in section.split("\n\n")
                if lines.startswith("|")]

    def test_schemes_by_size_with_those_of_the_peer_last(self):
        self.assertIn("2048 tokens, 4092 predicted: perplexity with 16 bits "
                      "quern 100.00, llama.cpp 101.00.", self.page)
        self.assertEqual(self.tables_under(SMOLLM2), [[
            ["8", "1.88", "+0.10 ± 0.05 %", "0.0004", "98.5 %"],
            ["turbo-k8v3", "2.56", "+5.00 ± 0.20 %", "0.03", "90.0 %",
             "+1.11 ± 0.30 %", "0.042", "89.4 %"],
            ["llama.cpp q8_0", "1.88", "+0.20 ± 0.10 %", "0.0005", "99.0 %"]]])

    def test_goals(self):
        self.assertEqual(self.tables_under(f"Goals, on {SMOLLM2}"), [
            [["turbo-k8v3", "2048", "fast", "+5.00 % (4 %): **missed**",
              "0.03 (0.035): met", "90.0 % (89.5 %): met"],
             ["turbo-k8v3", "8192", "fast", "+1.11 % (4 %): met",
              "0.042 (0.035): **missed**", "89.4 % (89.5 %): **missed**"]],
            [["turbo-k8v3", "1.40 (1.3): **missed**"]]])

    def test_codes_and_kernels(self):
        self.assertEqual(self.tables_under("The codes and the kernels"), [[
            ["SmolLM2 135M", "raw", "0", "0.0001", "0"],
            ["SmolLM2 135M", "8", "0.0003", "0.0007", "0.0004"]]])

    def test_the_csv_lies_beside_the_page(self):
        self.assertIn("(kv_quality/kv_quality.csv)", self.page)
        self.assertEqual(
            (self.folder / "kv_quality/kv_quality.csv").read_bytes(),
            (HERE / "kv_quality.csv").read_bytes())


if __name__ == "__main__":
    unittest.main()
