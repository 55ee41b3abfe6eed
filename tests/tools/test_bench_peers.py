"""The page and the plot that tools/bench_peers.py makes of peers.csv, whose
medians and ratios were computed by hand."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
TOOL = HERE.parent.parent / "tools/bench_peers.py"
NAME = "benchmarks/2026-01-31-some-cpu-r-9"

OTHER = "benchmarks/2025-12-31-other.csv"
OTHER_CSV = """round,side,model,case,threads,value,unit,load
0,machine,,cpu,2,Other CPU,,
0,machine,,date,2,2025-12-31,,
1,machine,,read bandwidth,2,10,GB/s,0
1,quern,smollm2,decode,2,90,tok/s,0
1,llama.cpp,smollm2,decode,2,30,tok/s,0
"""


class Report(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        (cls.folder / "benchmarks").mkdir()
        (cls.folder / OTHER).write_text(OTHER_CSV, "utf-8")
        subprocess.run([sys.executable, "-B", TOOL, "--report",
                        HERE / "peers.csv", "--out", cls.folder], check=True)
        cls.page = (cls.folder / "benchmarks.md").read_text("utf-8")

    def rows_under(self, heading):
        section = self.page.split(f"## {heading}\n")[1].split("\n## ")[0]
        return [line.strip("| ").split(" | ") for line in section.splitlines()
                if line.startswith("| ")][2:]

    def test_ratios_are_paired_and_goals_are_per_model(self):
        self.assertEqual(self.rows_under("Decode, one stream"), [
            # Ratios 2, 1.5 and 2.2; 110 steps of 0.1 GB, of 21 GB/s.
            ["SmolLM2 135M, Q4_1", "110", "50", "**2.00**", "1.50 to 2.20",
             "1.6, met", "52 %"],
            # Ratios 1, 1.25, 1.25.
            ["Qwen2.5-Coder 0.5B, Q4_K_M", "35", "30", "**1.25**",
             "1.00 to 1.25", "1.3, missed"]])

    def test_a_step_serves_all_streams(self):
        # 160 / 8 steps of 0.2625 GB, of 21 GB/s.
        self.assertEqual(self.rows_under("Decode, 8 streams")[0][-1], "25 %")

    def test_less_time_is_faster(self):
        self.assertEqual(self.rows_under("Start to first token"), [
            ["SmolLM2 135M, Q4_1", "0.2", "0.5", "**2.00**", "2.00 to 2.50",
             "2, met"]])

    def test_what_depth_leaves(self):
        self.assertEqual(
            self.rows_under("What 8192 tokens leave of the speed after 128"),
            [["SmolLM2 135M, Q4_1", "80 %", "50 %"]])

    def test_a_peer_that_did_not_finish(self):
        self.assertEqual(
            self.rows_under("Decode beside mlx-lm"),
            [["SmolLM2 135M, MLX 4-bit", "90", "did not finish in 30 s"]])

    def test_the_machine(self):
        for fact in ("| cpu | Some CPU (R) <9> |", "| rounds | 3 |",
                     "| read bandwidth | 21.0 GB/s |",
                     "0.75 CPUs; above 0.5 in 1 of 30 runs"):
            self.assertIn(fact, self.page)

    def test_ops_and_their_bounds(self):
        self.assertEqual(
            self.rows_under("Ops and their bounds"),
            [["`matmul/Q4_0/fast/rows:1`", "16.8 GB/s", "memory", "80 %"]])

    def test_other_machines(self):
        rows = self.rows_under("Times as fast on this and other machines")
        self.assertIn(["Decode, one stream: SmolLM2 135M, Q4_1", "2.00",
                       "3.00"], rows)
        self.assertIn(f"[Other CPU, 2025-12-31]({OTHER})", self.page)

    def test_the_files_beside_the_page(self):
        self.assertIn(f"({NAME}.csv)", self.page)
        self.assertEqual((self.folder / f"{NAME}.csv").read_bytes(),
                         (HERE / "peers.csv").read_bytes())

    def test_the_plot(self):
        self.assertIn(f"({NAME}.svg)", self.page)
        svg = ElementTree.parse(self.folder / f"{NAME}.svg").getroot()
        space = "{http://www.w3.org/2000/svg}"
        words = [text.text for text in svg.iter(f"{space}text")]
        self.assertIn("Some CPU (R) <9>", words)
        self.assertIn("Decode, one stream: SmolLM2 135M, Q4_1", words)
        bars = list(svg.iter(f"{space}rect"))[1:]
        # On a logarithmic axis 2 lies as far from 1 as 4 from 2.
        self.assertEqual(len(bars), 6)
        start, deep = float(bars[5].get("width")), float(bars[4].get("width"))
        self.assertAlmostEqual(deep / start, 1.415, delta=0.01)  # log2(8 / 3)


if __name__ == "__main__":
    unittest.main()
