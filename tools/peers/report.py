"""docs/benchmarks.md and its plot, from the rows of a CSV."""

import re

from . import plot
from .cases import CASES, DEEP, LIMITS_S, MODELS, NEAR, reason_of
from .results import BUSY, Results
from .rows import read

HEAD = """# Benchmarks

quern beside its peers on one machine, written by `make bench-peers` from the
CSV of every run. The programs run in turn, round by round and in the other
order each time, with the same files, lengths and threads. Figures are medians
of the rounds that a case has. "Times as fast" is the median of the rounds' own ratios, with the
least and the most of them; above 1, quern is faster. "Of the bandwidth" is what
quern's decode steps read (weights, keys and values), of what the machine's
cores can read from memory. llama.cpp's figures are of llama-bench,
llama-batched-bench and llama-server with their defaults, built for this CPU;
llama-bench leaves out the choice of the token, quern's figures have it in.
"""


def stem(facts):
    """The name of a run's files: its date and CPU."""
    cpu = re.sub(r"[^a-z0-9]+", "-", facts["cpu"].lower()).strip("-")
    return f"{facts['date']}-{cpu}"


def write(rows, folder):
    """folder/benchmarks.md, and the plot in folder/benchmarks/, whose path it
    returns."""
    results = Results(rows)
    picture = folder / "benchmarks" / f"{stem(results.facts)}.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(plot.ratios(results), encoding="utf-8")
    others = [(csv.name, Results(read(csv)))
              for csv in sorted(picture.parent.glob("*.csv"))
              if csv.stem != picture.stem]
    (folder / "benchmarks.md").write_text(
        markdown(results, f"benchmarks/{picture.stem}", others),
        encoding="utf-8")
    return picture


def markdown(results, files, others):
    parts = [HEAD, machine_table(results),
             f"Every run: [{files}.csv]({files}.csv).\n",
             f"![How many times as fast]({files}.svg)\n"]
    for case in CASES:
        if lines := results.lines_of(case):
            parts.append(case_section(case, lines))
    parts.append(depth_section(results))
    parts.append(others_section(results, others))
    parts.append(ops_section(results))
    return "\n".join(part for part in parts if part)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def machine_table(results):
    runs, busy, most = results.busy_runs()
    load = f"at most {most:.2f} CPUs"
    if busy:
        load += f"; above {BUSY} in {busy} of {runs} runs: doubtful"
    facts = [*results.facts.items(), ("threads", str(results.threads)),
             ("rounds", str(results.rounds)),
             ("read bandwidth", f"{results.bandwidth:.1f} GB/s"),
             ("load of other programs", load)]
    return table(["machine", ""], [list(fact) for fact in facts])


def case_section(case, lines):
    head = ["", f"quern, {case.unit}", f"{case.peer}, {case.unit}",
            "times as fast", "of the rounds", "goal", "of the bandwidth"]
    rows = [case_row(line) for line in lines]
    # A column that no model fills is left out.
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    rounds = max(line.rounds for line in lines)
    told = f"{rounds} rounds." if rounds > 1 else "One round."
    return f"## {case.title}\n\n{case.how} {told}\n\n" + table(
        [head[i] for i in kept], [[row[i] for i in kept] for row in rows])


def case_row(line):
    share = f"{100 * line.share:.0f} %" if line.share is not None else ""
    own = [MODELS[line.model], number(line.own)]
    if line.ratio is None:
        limit = LIMITS_S[line.case.peer]
        return [*own, f"did not finish in {limit} s", "", "", "", share]
    goal = ""
    if line.goal:
        goal = f"{line.goal:g}, {'met' if line.met else 'missed'}"
    return [*own, number(line.peer), f"**{line.ratio:.2f}**",
            f"{line.low:.2f} to {line.high:.2f}", goal, share]


def number(value):
    """Three digits or more."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def depth_section(results):
    """What is left of the speed deep in a text."""
    lines = {(line.model, line.case.name): line for line in results.lines}
    rows = []
    for model, title in MODELS.items():
        near, deep = lines.get((model, NEAR)), lines.get((model, DEEP))
        if near and deep and near.peer and deep.peer:
            rows.append([title, f"{100 * deep.own / near.own:.0f} %",
                         f"{100 * deep.peer / near.peer:.0f} %"])
    return rows and (
        "## What 8192 tokens leave of the speed after 128\n\n" +
        table(["", "quern", "llama.cpp"], rows))


def others_section(results, others):
    """How many times as fast on each machine; others: (CSV, results)."""
    runs = [results, *(other for _, other in others)]
    ratios = [{(line.case.title, MODELS[line.model]): line.ratio
               for line in run.lines if line.ratio is not None}
              for run in runs]
    rows = [[f"{title}: {model}",
             *(f"{ratio[title, model]:.2f}" if (title, model) in ratio else ""
               for ratio in ratios)] for title, model in ratios[0]]
    links = [f"[{other.facts['cpu']}, {other.facts['date']}](benchmarks/{csv})"
             for csv, other in others]
    return others and (
        "## Times as fast on this and other machines\n\n" +
        table(["", "this one", *links], rows))


def ops_section(results):
    """Each op's share of what bounds it."""
    rows = [[f"`{name}`", f"{number(rate)} {unit}", bound,
             f"{100 * share:.0f} %", reason_of(name) if share < 0.6 else ""]
            for name, rate, unit, share, bound in results.ops()]
    return rows and (
        "## Ops and their bounds\n\nWhat one op of quern does alone on all "
        "threads, and its share of what the machine was seen to do at most "
        "just before: bytes read from memory, or multiplications and "
        "additions in f32 or int8 from registers. Weights lie beyond the "
        "caches; the keys of a short past and the rows of norms, rotations "
        "and activations may not, and then pass 100 %. The reason stands "
        "where it is under 60 %.\n\n" +
        table(["op", "rate", "bound", "share", "reason"], rows))
