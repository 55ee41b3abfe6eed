#!/usr/bin/env python3
"""Measures quern beside llama.cpp and mlx-lm, round by round, and writes
docs/benchmarks.md with the CSV of every run and a plot.

`make bench-peers` prepares what this needs: build/release (with ops_bench),
tools/build_llama.sh, the tests' Python (mlx-lm), the models. Wants a quiet
machine. --report writes the page anew from a CSV, whose name it keeps.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import date, datetime
from pathlib import Path

from peers import cases, machine, report
from peers.programs import Failed, Programs
from peers.results import BUSY
from peers.rows import BANDWIDTH, MACHINE, OF, OP, Row, Writer, read

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tools/requirements-test.txt"
CACHE = Path.home() / ".cache"
PEERS = Path(os.environ.get("QUERN_PEERS") or CACHE / "quern-peers")
DEPS = Path(os.environ.get("QUERN_DEPS") or CACHE / "quern/deps")


def say(text):
    print(f"bench_peers: {text}", file=sys.stderr, flush=True)


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def test_python():
    """The Python that has mlx-lm, as tools/setup.sh names it."""
    pins = hashlib.sha256(PINS.read_bytes()).hexdigest()
    return DEPS / f"test-venv-{pins[:12]}/bin/python"


def model_paths(names, python):
    """The GGUF files, and the MLX directory made of SmolLM2's."""
    ggufs = {name.removesuffix("-mlx") for name in names}
    out = output_of("tools/fetch_models.sh", *ggufs)
    paths = dict(line.split("\t") for line in out.splitlines())
    if "smollm2-mlx" in names:
        paths["smollm2-mlx"] = mlx_directory(paths["smollm2"], python)
    return paths


def mlx_directory(gguf, python):
    path = PEERS / "smollm2-mlx-4bit"
    if not path.exists():
        say(f"making the MLX directory {path}")
        partial = PEERS / f".smollm2-mlx.{os.getpid()}"
        output_of(python, "tools/to_mlx.py", gguf, partial, "--bits", "4")
        partial.rename(path)
    return str(path)


def facts(version):
    """What the page says of the machine and of the programs."""
    try:
        commit = output_of("git", "describe", "--always", "--dirty").strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"  # not a checkout
    mlx_lm = re.search(r"^mlx-lm==(.*)$", PINS.read_text(), re.MULTILINE)[1]
    llama, compiler, _ = (PEERS / "llama/version").read_text().split()
    return {
        "date": date.today().isoformat(), "cpu": machine.cpu_model(),
        "vector extensions": machine.vector_extensions(),
        "cores": str(os.cpu_count()),
        "quern": f"{version['version']}, commit {commit}, "
                 f"{version['isa']} kernels, {version['compiler']}",
        "llama.cpp": f"of llama-cpp-python {llama}, {compiler}",
        "mlx-lm": mlx_lm,
        "1-minute load before": f"{os.getloadavg()[0]:.2f}"}


class Bench:
    """Rounds of the chosen cases, whose rows go to the writer."""

    def __init__(self, programs, chosen, threads, writer):
        self._programs, self._chosen = programs, chosen
        self._threads, self._writer = threads, writer

    def round(self, i):
        self._bandwidth(i)
        for case, model in self._chosen:
            if i > case.rounds:
                continue
            sides = [cases.QUERN, case.peer]
            for side in sides if i % 2 else reversed(sides):
                self._run(i, side, case, model)

    def _bandwidth(self, i):
        watch = machine.Watch()
        value = self._programs.read_bandwidth()
        self._add(i, MACHINE, "", BANDWIDTH, [(value, "GB/s")], watch.load())

    def ops(self):
        """Of quern alone, once."""
        watch = machine.Watch()
        found = self._programs.ops()
        for name, rate, unit, share, bound in found:
            self._add(1, cases.QUERN, "", OP + name,
                      [(rate, unit), (share, OF + bound)], watch.load())

    def _run(self, i, side, case, model):
        watch = machine.Watch()
        if case.neighbour:
            with machine.neighbour():
                figures = self._programs.run(side, case, model)
        else:
            figures = self._programs.run(side, case, model)
        self._add(i, side, model, case.name, figures, watch.load())

    def _add(self, i, side, model, case, figures, load):
        for value, unit in figures:
            self._writer.add(Row(i, side, model, case, self._threads, value,
                                 unit, round(load, 3)))
        value, unit = figures[0]
        shown = "did not finish" if value is None else f"{value:.4g} {unit}"
        doubt = ", which makes it doubtful" if load > BUSY else ""
        say(f"round {i}, {case} {model}: {side} {shown}, "
            f"load of others {load:.2f}{doubt}")


def chosen_cases(options, version):
    """(case, model) pairs; those held to an instruction set only where quern
    would use another."""
    lesser = [isa for isa in version["isa_available"] if isa != version["isa"]]
    wanted = options.cases or [case.name for case in cases.CASES]
    return [(case.shortened() if options.quick else case, model)
            for case in cases.CASES
            if case.name in wanted and case.isa in ["", *lesser]
            for model in case.models if model in options.models]


def open_csv(known, threads):
    """A new CSV, which begins with the facts."""
    folder = ROOT / "build/bench/peers"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now():%Y-%m-%d-%H%M%S}.csv"
    writer = Writer(path)
    for name, value in known.items():
        writer.add(Row(0, MACHINE, "", name, threads, value, "", None))
    return path, writer


def measure(options):
    python, threads = test_python(), options.threads
    version = json.loads(output_of(options.quern, "version", "--json"))
    known = facts(version)
    if options.quick:
        known["lengths"] = "cut short to try the tool: no figure counts"
    paths = model_paths(options.models, python)
    csv, writer = open_csv(known, threads)
    # Of this process and of all it starts, the busy neighbour included.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    say(f"1-minute load: {known['1-minute load before']}; every run: {csv}")
    bench = Bench(
        Programs(options.quern, PEERS / "llama", python, paths, threads),
        chosen_cases(options, version), threads, writer)
    if not (options.quick or options.cases):
        bench.ops()
    for i in range(1, options.rounds + 1):
        bench.round(i)
    return csv


def publish(csv, folder):
    """The page of a run, its CSV and plot beside it."""
    kept = report.write(read(csv), folder).with_suffix(".csv")
    if not kept.exists() or not kept.samefile(csv):
        shutil.copyfile(csv, kept)
    say(f"wrote {folder / 'benchmarks.md'}")


def positive(text):
    if (number := int(text)) < 1:
        raise ValueError
    return number


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=positive, default=5)
    add("--threads", type=positive, default=2)
    add("--models", nargs="+", choices=cases.MODELS, metavar="NAME",
        default=list(cases.MODELS), help="of " + ", ".join(cases.MODELS))
    add("--cases", nargs="+", choices=[c.name for c in cases.CASES],
        metavar="CASE", help="these alone, without the ops: of "
        + ", ".join(c.name for c in cases.CASES)
        + "; the page goes to build/bench")
    add("--quick", action="store_true",
        help="short lengths, to try the tool: the page goes to build/bench")
    add("--quern", type=lambda path: Path(path).resolve(),
        default=ROOT / "build/release/quern",
        help="the program; bench/ops_bench lies beside it")
    add("--report", type=Path, metavar="CSV", help="measure nothing")
    add("--out", type=Path, metavar="FOLDER",
        help="of the page (default: docs)")
    return parser.parse_args()


def main():
    options = parse_options()
    is_part = options.quick or options.cases
    folder = "build/bench/peers" if is_part else "docs"
    try:
        csv = options.report or measure(options)
        publish(csv, options.out or ROOT / folder)
    except (Failed, OSError, subprocess.CalledProcessError) as failure:
        sys.exit(f"bench_peers: {failure}")


if __name__ == "__main__":
    main()
