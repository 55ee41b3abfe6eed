"""Medians and ratios of the rows of a CSV."""

from dataclasses import dataclass
from statistics import median

from .cases import CASES, MODELS, QUERN
from .rows import BANDWIDTH, MACHINE, OF, OP, STEP_BYTES

BUSY = 0.5  # CPUs of other programs beyond which a run is doubtful


@dataclass(frozen=True)
class Line:
    """A model in a case. peer, ratio, low, high: None if the peer never
    finished. share, of the read bandwidth: None in a prefill or a start."""
    case: object
    model: str
    own: float
    peer: float | None
    ratio: float | None  # the median of the rounds' ratios
    low: float | None    # their least and most
    high: float | None
    share: float | None
    rounds: int

    @property
    def goal(self):
        return self.case.goal_of(self.model)

    @property
    def met(self):
        return self.ratio >= self.goal


class Results:
    """What a page says of the rows."""

    def __init__(self, rows):
        self.facts = {row.case: row.value for row in rows if row.round == 0}
        self._runs = [row for row in rows if row.round > 0]
        self.rounds = max(row.round for row in self._runs)
        self.threads = self._runs[0].threads
        self.bandwidth = median(
            self._by_round(MACHINE, "", BANDWIDTH, "GB/s").values())
        self.lines = [line for case in CASES for model in MODELS
                      if (line := self._line(case, model))]

    def ops(self):
        """(name, rate, unit, share, bound) of each op."""
        found = {}
        for row in self._runs:
            if row.case.startswith(OP):
                found.setdefault(row.case.removeprefix(OP), []).append(row)
        return [(name, rate.value, rate.unit, share.value,
                 share.unit.removeprefix(OF))
                for name, (rate, share) in found.items()]

    def busy_runs(self):
        """How many runs there are, how many beside other programs, and the
        highest load of those."""
        loads = [row.load for row in self._runs
                 if row.unit != STEP_BYTES and not row.unit.startswith(OF)]
        return len(loads), sum(load > BUSY for load in loads), max(loads)

    def lines_of(self, case):
        return [line for line in self.lines if line.case is case]

    def _by_round(self, side, model, case, unit):
        return {row.round: row.value for row in self._runs
                if (row.side, row.model, row.case, row.unit)
                == (side, model, case, unit) and row.value is not None}

    def _line(self, case, model):
        own = self._by_round(QUERN, model, case.name, case.unit)
        peer = self._by_round(case.peer, model, case.name, case.unit)
        if not own:
            return None
        ratios = [case.times_as_fast(own[i], peer[i])
                  for i in own.keys() & peer.keys()]
        return Line(case, model, median(own.values()),
                    median(peer.values()) if peer else None,
                    *((median(ratios), min(ratios), max(ratios)) if ratios
                      else (None,) * 3), self._share(case, model, own),
                    len(own))

    def _share(self, case, model, own):
        step_bytes = self._by_round(QUERN, model, case.name, STEP_BYTES)
        if not step_bytes:
            return None
        steps = median(own.values()) / case.streams
        return steps * median(step_bytes.values()) / (1e9 * self.bandwidth)
