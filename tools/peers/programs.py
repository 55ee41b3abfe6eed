"""One run of a program: its figures."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path

from . import cases
from .rows import STEP_BYTES

CONTEXT = 4096  # tokens that the servers keep room for
READ_TEST = "^attend/f16/past:512/tokens:1/"
OPS = "fast|matmul/(F32|BF16)|attend|norm|rope|silu|gelu"
RUN_MLX_LM = Path(__file__).with_name("run_mlx_lm.py")


class Failed(Exception):
    """A program ended with an error."""


class Programs:
    """Runs quern and its peers on the files of the models."""

    def __init__(self, quern, llama_dir, python, models, threads):
        self._quern, self._llama_dir = quern, llama_dir
        self._python, self._models, self._threads = python, models, threads

    def run(self, side, case, model):
        """(value, unit) pairs; value is None if a peer took longer than it
        may."""
        how = {cases.QUERN: self._run_quern, cases.LLAMA: self._run_llama,
               cases.MLX_LM: self._run_mlx_lm}[side]
        try:
            return how(case, model)
        except subprocess.TimeoutExpired as late:
            if side == cases.QUERN:
                raise Failed(str(late)) from late
            return [(None, case.unit)]

    def read_bandwidth(self):
        """GB a second, of the cores that the programs may use."""
        return self._ops_bench(READ_TEST)[0]["memory"]

    def ops(self):
        """(name, rate, unit, share of the bound, bound) of quern's ops."""
        bounds, runs = self._ops_bench(OPS)
        found = []
        for run in runs:
            bound = run["label"]
            unit = "GB/s" if bound == "memory" else "GFLOP/s"
            if bounds[bound]:
                name = run["run_name"].removesuffix("/real_time")
                found.append((name, run[unit], unit,
                              run[unit] / bounds[bound], bound))
        return found

    def _ops_bench(self, tests):
        """The bounds, in units of 1e9 a second, and the runs."""
        out = output_of(
            [self._quern.parent / "bench/ops_bench", "--benchmark_format=json",
             f"--benchmark_filter={tests}"], cases.QUERN)
        result = json.loads(out)
        bounds = {name.split("_")[0]: float(value)
                  for name, value in result["context"].items()
                  if name in ("memory_GB/s", "f32_GFLOP/s", "int8_GFLOP/s")}
        return bounds, result["benchmarks"]

    def _run_quern(self, case, model):
        path = self._models[model]
        threads = ["--threads", self._threads]
        if case.figure == "start":
            return [(seconds_to_answer(
                [self._quern, "serve", path, *threads, "--batch", 1,
                 "--context", CONTEXT, "--log-level", "off"],
                cases.QUERN), "s")]
        before = ["--prompt", case.prompt]
        if case.made_up:
            before = ["--depth", case.prompt - 1, "--depth-synthetic",
                      "--prompt", 1]
        out = output_of(
            [self._quern, "bench", path, *threads, *before, "--gen", case.gen,
             "--batch", case.streams, "--runs", 1, "--json"], cases.QUERN,
            **({"QUERN_ISA": case.isa} if case.isa else {}))
        row = json.loads(out)[0]
        if case.figure == "prefill":
            return [(float(row["prefill_tps"]), "tok/s")]
        return [(float(row["decode_tps"]), "tok/s"),
                (float(row["bytes_per_step"]), STEP_BYTES)]

    def _run_llama(self, case, model):
        path = self._models["smollm2" if model == "smollm2-mlx" else model]
        common = ["-m", path, "-t", self._threads]
        if case.figure == "start":
            return [(seconds_to_answer(
                [self._llama("server"), *common, "-np", 1, "-c", CONTEXT,
                 "--no-warmup", "--log-disable"], cases.LLAMA), "s")]
        if case.streams > 1:
            room = case.streams * (case.prompt + case.gen)
            out = output_of(
                [self._llama("batched-bench"), *common, "-c", room, "-pps",
                 "-npp", case.prompt, "-ntg", case.gen, "-npl", case.streams,
                 "--output-format", "jsonl"], cases.LLAMA)
            line = re.search(r"^\{.*\}$", out, re.MULTILINE)
            return [(float(json.loads(line[0])["speed_tg"]), "tok/s")]
        test = (["-p", case.prompt, "-n", 0] if case.figure == "prefill" else
                ["-p", 0, "-n", case.gen, "-d", case.prompt])
        out = output_of([self._llama("bench"), *common, *test, "-r", 1, "-o",
                         "json"], cases.LLAMA)
        return [(float(json.loads(out)[0]["avg_ts"]), "tok/s")]

    def _run_mlx_lm(self, case, model):
        out = output_of([self._python, RUN_MLX_LM, self._models[model],
                         case.prompt, case.gen], cases.MLX_LM)
        return [(float(json.loads(out)[case.figure]), "tok/s")]

    def _llama(self, tool):
        return self._llama_dir / "bin" / f"llama-{tool}"


def words(command):
    return [str(word) for word in command]


def environment(**more):
    """Without settings of the caller's that would change what is measured."""
    return {**{name: value for name, value in os.environ.items()
               if not name.startswith("QUERN_")}, **more}


def output_of(command, side, **settings):
    done = subprocess.run(
        words(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, timeout=cases.LIMITS_S[side],
        env=environment(**settings))
    if done.returncode:
        raise Failed(f"{' '.join(words(command))} ended with "
                     f"{done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def seconds_to_answer(server, side):
    """From the start of the server to its answer of one token."""
    command = words([*server, "--port", free_port()])
    start = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL,
                          env=environment()) as process:
        try:
            while not is_answered(command[-1]):
                if process.poll() is not None:
                    raise Failed(f"{' '.join(command)} ended")
                if time.monotonic() - start > cases.LIMITS_S[side]:
                    raise subprocess.TimeoutExpired(command, 0)
                time.sleep(0.002)
            return time.monotonic() - start
        finally:
            process.kill()


def is_answered(port):
    """False while the server is not there or not ready (503)."""
    body = {"model": "any", "prompt": "Hello", "max_tokens": 1}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        try:
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
        except (ConnectionError, TimeoutError, http.client.HTTPException):
            return False
        if answer.status not in (200, 503):
            raise Failed(f"the server answered {answer.status}: "
                         f"{answer.read(2000).decode(errors='replace')}")
        answer.read()
        return answer.status == 200
