"""The CSV: a row a figure of a run; a machine's facts are rows of round 0."""

import csv
from dataclasses import asdict, dataclass, fields

MACHINE = "machine"  # the side of facts and of the read bandwidth
BANDWIDTH = "read bandwidth"
STEP_BYTES = "bytes/step"
OP = "op "          # before the name of an op, as a case
OF = "share of "    # before the name of its bound, as a unit


@dataclass(frozen=True)
class Row:
    round: int
    side: str
    model: str
    case: str
    threads: int
    value: float | str | None  # None: it did not finish; str: a fact
    unit: str
    load: float | None         # CPUs that other programs kept busy meanwhile


COLUMNS = [f.name for f in fields(Row)]


class Writer:
    """Each row is in the file at once, whatever happens to the next."""

    def __init__(self, path):
        self._file = open(path, "w", newline="", encoding="utf-8")
        self._csv = csv.DictWriter(self._file, COLUMNS, lineterminator="\n")
        self._csv.writeheader()

    def add(self, row):
        cells = asdict(row)
        if isinstance(row.value, float):
            cells["value"] = f"{row.value:.6g}"
        self._csv.writerow(cells)
        self._file.flush()


def read(path):
    with open(path, newline="", encoding="utf-8") as f:
        return [parse(cells) for cells in csv.DictReader(f)]


def parse(cells):
    is_fact = cells["round"] == "0"
    value, load = cells["value"], cells["load"]
    return Row(**{
        **cells, "round": int(cells["round"]),
        "threads": int(cells["threads"]),
        "value": value if is_fact else float(value) if value else None,
        "load": float(load) if load else None})
