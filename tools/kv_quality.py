#!/usr/bin/env python3
"""Measures what each KV scheme costs in quality, beside llama.cpp's, and writes
docs/kv_quality.md with a CSV of every figure.

`make kv-quality` prepares what this needs: build/release/quern and
tools/build_llama.sh; the models it fetches itself. Takes most of an hour on 2
quiet cores; a busy machine takes longer and gives the same figures. What --csv
has already is not measured again, so a run may be cut short and taken up.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from pathlib import Path

from kv_quality_page import QUERN, LLAMA, RAW, page
from peers.machine import cpu_model

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests/data/prose.txt"
LLAMA_DIR = Path(os.environ.get("QUERN_PEERS") or
                 Path.home() / ".cache/quern-peers") / "llama"

WINDOWS = {  # of a model: (tokens of a window, windows)
    "smollm2": ((2048, 2), (8192, 1)),
    "gemma3": ((2048, 1), (8192, 1)),
    "qwen-coder": ((2048, 1), (8192, 1)),
}
GOALS = ("8", "4", "turbo:k8v8", "turbo:k8v4", "turbo:k8v3", "turbo:k4v4")
SCHEMES = (*GOALS, "turbo:k8v5", "turbo:k8v2", "turbo:k5v4", "turbo:k4v3",
           "turbo:k2v2")
EXACT = (*GOALS, "turbo:k4v3", "fast:raw", "fast:8", "fast:turbo:k8v8")
LLAMA_TYPES = ("q8_0", "q4_0")


class Failed(Exception):
    """A program ended with an error."""


@dataclass(frozen=True)
class Run:
    """Schemes over the same windows; the first figures are of 16 bits."""
    model: str
    side: str
    how: str      # of quern: fast, exact, or rings (codes there as well)
    context: int
    windows: int
    schemes: tuple

    @property
    def skip(self):
        """Tokens of a window that are not predicted: llama-perplexity gives
        the first half no figure."""
        return self.context // 2 + 1


@dataclass(frozen=True)
class Figure:
    model: str
    side: str
    how: str
    context: int
    tokens: int   # predicted
    scheme: str
    perplexity: float
    kl: float     # of 16 bits, mean, nats; 0 for these themselves
    same_top: float
    change: float  # of the perplexity, relative
    error: float   # of the change, one standard error


def say(text):
    print(f"kv_quality: {text}", file=sys.stderr, flush=True)


def output_of(command):
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))} ended with "
                     f"{done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def written(scheme):
    """As the CSV has it."""
    return scheme.replace("turbo:", "turbo-").replace("fast:", "fast ")


def all_runs(models, sides):
    runs = []
    for i, schemes in enumerate((SCHEMES, GOALS)):
        for model in models:
            where = WINDOWS[model][i]
            runs.append(Run(model, QUERN, "fast", *where, schemes))
            if i == 0:
                runs.append(Run(model, QUERN, "exact", *where, EXACT))
            runs.append(Run(model, LLAMA, "", *where, LLAMA_TYPES))
            if i == 0 and model == "gemma3":
                runs.append(Run(model, QUERN, "rings", *where, SCHEMES))
    return [run for run in runs if run.side in sides]


def measure(run, quern, path, threads):
    if run.side == LLAMA:
        return measure_llama(run, path, threads)
    command = [quern, "perplexity", path, "--file", TEXT, "--json",
               "--threads", threads, "--context", run.context,
               "--tokens", run.windows * (run.context - 1) + 1,
               "--skip", run.skip]
    for scheme in run.schemes:
        command += ["--compare", scheme]
    if run.how == "exact":
        command.append("--exact")
    if run.how == "rings":
        command += ["--kv-ring", "same"]
    result = json.loads(output_of(command))
    figures = [figure(run, result["tokens"], RAW, result["perplexity"])]
    for other in result["compared"]:
        other_way = "" if other["exact"] == result["exact"] else "fast "
        figures.append(figure(
            run, result["tokens"], other_way + other["kv"], other["perplexity"],
            other["kl"], other["same_top"],
            other["perplexity"] / result["perplexity"] - 1,
            other["nll_change_error"]))
    return figures


def figure(run, tokens, scheme, perplexity, kl=0., same_top=1., change=0.,
           error=0.):
    return Figure(run.model, run.side, run.how, run.context, tokens, scheme,
                  perplexity, kl, same_top, change, error)


def measure_llama(run, path, threads):
    command = [LLAMA_DIR / "bin/llama-perplexity", "-m", path, "-f", TEXT,
               "-t", threads, "-c", run.context, "-b", 512, "-fa", "on",
               "--chunks", run.windows]
    tokens = run.windows * (run.context - run.skip)
    figures = []
    # The base has two bytes for each word of the vocabulary and each token.
    with tempfile.TemporaryDirectory(dir=LLAMA_DIR) as scratch:
        base = ["--kl-divergence-base", Path(scratch) / "base"]
        output_of([*command, *base])
        for kind in run.schemes:
            out = output_of([*command, *base, "--kl-divergence",
                             "-ctk", kind, "-ctv", kind])
            if not figures:
                figures.append(figure(run, tokens, "f16", llama_value(
                    out, r"Mean PPL\(base\)")))
            error = float(re.search(
                r"^Mean ln\(PPL\(Q\)/PPL\(base\)\)\s*:.*±\s*(\S+)", out,
                re.MULTILINE)[1])
            perplexity = llama_value(out, r"Mean PPL\(Q\)")
            figures.append(figure(
                run, tokens, kind, perplexity, llama_value(out, r"Mean +KLD"),
                llama_value(out, "Same top p") / 100,
                perplexity / figures[0].perplexity - 1, error))
    return figures


def llama_value(out, name):
    found = re.search(rf"^{name}\s*:\s*(\S+)", out, re.MULTILINE)
    if not found:
        raise Failed(f"llama-perplexity did not say {name}:\n{out[-2000:]}")
    return float(found[1])


def read(path):
    types = {f.name: f.type for f in fields(Figure)}
    with open(path, newline="", encoding="utf-8") as f:
        return [Figure(**{name: types[name](cell)
                          for name, cell in cells.items()})
                for cells in csv.DictReader(f)]


def write(path, figures):
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, [f.name for f in fields(Figure)],
                                lineterminator="\n")
        writer.writeheader()
        for each in figures:
            writer.writerow({name: f"{value:.7g}" if isinstance(value, float)
                             else value for name, value in asdict(each).items()})


def model_paths(models):
    out = output_of([ROOT / "tools/fetch_models.sh", *models])
    return dict(line.split("\t") for line in out.splitlines())


def measure_all(options):
    paths = model_paths(options.models)
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    figures = read(options.csv) if options.csv.exists() else []
    for run in all_runs(options.models, options.sides):
        known = {f.scheme for f in figures
                 if (f.model, f.side, f.how, f.context) ==
                 (run.model, run.side, run.how, run.context)}
        missing = tuple(scheme for scheme in run.schemes
                        if written(scheme) not in known)
        if not missing:
            continue
        say(" ".join([run.model, run.side, run.how, str(run.context),
                      *missing]))
        run = replace(run, schemes=missing)
        figures += [f for f in measure(run, options.quern, paths[run.model],
                                       options.threads)
                    if f.scheme not in known]
        write(options.csv, figures)
    return figures


def publish(options):
    """The page, and the CSV beside it."""
    folder = options.out
    cpu = re.sub(r"[^a-z0-9]+", "-", cpu_model().lower()).strip("-")
    kept = folder / "kv_quality" / f"{date.today()}-{cpu}.csv"
    if options.report:
        kept = folder / "kv_quality" / options.csv.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not kept.exists() or not kept.samefile(options.csv):
        shutil.copyfile(options.csv, kept)
    (folder / "kv_quality.md").write_text(
        page(read(kept), f"kv_quality/{kept.name}"), encoding="utf-8")
    say(f"wrote {folder / 'kv_quality.md'}")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--threads", type=int, default=2)
    add("--models", nargs="+", choices=WINDOWS, metavar="NAME",
        default=list(WINDOWS), help="of " + ", ".join(WINDOWS))
    add("--sides", nargs="+", choices=(QUERN, LLAMA), default=[QUERN, LLAMA])
    add("--quern", type=Path, default=ROOT / "build/release/quern")
    add("--csv", type=Path, metavar="FILE",
        default=ROOT / "build/bench/kv_quality.csv")
    add("--report", action="store_true", help="measure nothing")
    add("--out", type=Path, metavar="FOLDER", default=ROOT / "docs")
    return parser.parse_args()


def main():
    options = parse_options()
    try:
        if not options.report:
            measure_all(options)
        publish(options)
    except (Failed, OSError) as failure:
        sys.exit(f"kv_quality: {failure}")


if __name__ == "__main__":
    main()
