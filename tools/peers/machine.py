"""The machine: what it is, who else uses it, a neighbour of our own."""

import contextlib
import os
import re
import subprocess
import sys
import time

SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1000000): pass
"""


EXTENSIONS = re.compile(
    r"avx2|fma|avx_vnni|avx512(f|bw|_vnni|_bf16)|amx_.*|asimd.*|i8mm|sve")


def cpu_field(names):
    """The words of /proc/cpuinfo's first line of one of the names."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        found = re.search(rf"^(?:{names})\s*:(.+)$", f.read(), re.MULTILINE)
    return found[1].split() if found else []


def cpu_model():
    return " ".join(cpu_field("model name")) or os.uname().machine


def vector_extensions():
    """Those that matter to matrix products."""
    return " ".join(filter(EXTENSIONS.fullmatch, cpu_field("flags|Features")))


class Watch:
    """How many CPUs other programs keep busy: all of the machine's busy time
    without that of this process and of the children it has waited for."""

    def __init__(self):
        self._start = self._read()

    def load(self):
        passed, busy, own = (
            now - then for now, then in zip(self._read(), self._start))
        return max(0.0, (busy - own) / passed)

    @staticmethod
    def _read():
        with open("/proc/stat", encoding="utf-8") as f:
            ticks = [int(word) for word in f.readline().split()[1:9]]
        idle, waiting = ticks[3], ticks[4]
        busy = (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, sum(os.times()[:4])


@contextlib.contextmanager
def neighbour():
    """A process that keeps the last core busy."""
    core = max(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", SPIN]) as process:
        try:
            os.sched_setaffinity(process.pid, {core})
            yield
        finally:
            process.kill()
