#!/usr/bin/env python3
"""Many streaming clients with mixed requests, some of which leave: every reply
that is read to its end has to be the reply of the same request alone, text and
log-probabilities, bit for bit.

usage: stress.py [--model DIR_OR_GGUF] [--seconds S | --replies N]
                 [--clients N] [--seed N] [SERVE_ARGUMENTS...]

Without a model it plays on a scripted one. QUERN_BINARY names the program;
tools/ must be in PYTHONPATH. Prints one line of JSON; exit code 1 and the
first reply that differs if there is one.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import sys
import tempfile
import threading
import time

import harness
import replies

PROSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data",
                     "prose.txt")
SCRIPTS = {
    "@stop": ["Alpha", "\nUs", "er", ": leak", "tail"],
    "@emoji": ["hi ", 0xF0, 0x9F, 0x99, 0x82, " bye"],
    "@think": ["<think>", "reason", "ing", "</think>", "answer"],
}
REQUESTS = 32  # different ones
LEAVING = 0.3  # share of requests whose client does not wait for the end


@dataclasses.dataclass
class Ask:
    path: str
    body: dict

    def fold(self, response):
        fold = (replies.fold_chat if "chat" in self.path
                else replies.fold_completion)
        answer = fold(replies.read_events(response))
        return answer.choices, answer.usage["completion_tokens"]


def mixed_requests(rng, count, end_id=None):
    """Prompts of 1 to 2,000 characters, answers of up to 150 tokens. The end
    token is banned in half of them, if there is one to ban."""
    with open(PROSE, encoding="utf-8") as f:
        prose = f.read()
    return [_mixed_request(rng, prose, number, end_id)
            for number in range(count)]


def _mixed_request(rng, prose, number, end_id):
    length = rng.choice((1, 20, 80, 300, 700, 2000))
    start = rng.randrange(len(prose) - length)
    text = prose[start:start + length]
    body = {"stream": True, "stream_options": {"include_usage": True},
            "max_tokens": rng.choice((1, 5, 20, 60, 150)),
            "temperature": rng.choice((0, 0.7, 1.2, 2)), "seed": number}
    if rng.random() < 0.5:
        body |= rng.choice((
            {"top_k": 40}, {"top_p": 0.9}, {"min_p": 0.05},
            {"repetition_penalty": 1.2}, {"presence_penalty": 0.5},
            {"frequency_penalty": 0.5}, {"stop": ["e", "\n"]},
            {"xtc_probability": 0.5, "xtc_threshold": 0.05}))
    if end_id is not None and number % 2:
        body["logit_bias"] = {end_id: -100}
    if rng.random() < 0.4:
        ending = rng.choice([*SCRIPTS, ""]) if end_id is not None else ""
        messages = [{"role": "user", "content": text + ending}]
        return Ask("/v1/chat/completions", {
            **body, "messages": messages, "logprobs": True, "top_logprobs": 3})
    return Ask("/v1/completions", {**body, "prompt": text or "a",
                                   "logprobs": 3, "n": rng.choice((1, 1, 2))})


class Stress:
    """Clients of one server. Counts what they saw."""

    def __init__(self, server, requests):
        self._server = server
        self._requests = requests
        self._alone = [self._whole(ask) for ask in requests]
        self._lock = threading.Lock()
        self.finished = self.left = self.tokens = 0
        self.faults = []

    def run(self, clients, seed, is_done):
        threads = [threading.Thread(target=self._client,
                                    args=(random.Random(f"{seed}/{i}"),
                                          is_done))
                   for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _whole(self, ask):
        connection, response = self._server.open("POST", ask.path, ask.body)
        with contextlib.closing(connection):
            if response.status != 200:
                raise AssertionError(f"{ask}: {response.status} "
                                     f"{response.read()}")
            return ask.fold(response)

    def _client(self, rng, is_done):
        try:
            while not (is_done(self) or self.faults):
                number = rng.randrange(len(self._requests))
                if rng.random() < LEAVING:
                    self._leave(self._requests[number], rng)
                else:
                    self._compare(number)
        except Exception as fault:
            self._count(fault=f"{type(fault).__name__}: {fault}")

    def _compare(self, number):
        got = self._whole(self._requests[number])
        alone = self._alone[number]
        self._count(finished=1, tokens=got[1])
        if got != alone:
            self._count(fault=f"{self._requests[number]}\nalone:  {alone}\n"
                              f"beside: {got}")

    def _leave(self, ask, rng):
        """Goes at once, or after some of the lines of its answer."""
        connection = self._server.connect()
        with contextlib.closing(connection):
            connection.request("POST", ask.path, json.dumps(ask.body),
                               {"Content-Type": "application/json"})
            lines = rng.choice((0, 0, 1, 2, 5, 20))
            if lines:
                response = connection.getresponse()
                for _ in range(lines):
                    response.readline()
            else:
                time.sleep(rng.random() * 0.05)
        self._count(left=1)

    def _count(self, finished=0, left=0, tokens=0, fault=None):
        with self._lock:
            self.finished += finished
            self.left += left
            self.tokens += tokens
            if fault:
                self.faults.append(fault)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--replies", type=int)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options, serve_arguments = parser.parse_known_args()

    with tempfile.TemporaryDirectory() as scratch:
        end_id = None
        if not options.model:
            end_id = harness.Model(scratch, SCRIPTS).end
        server = harness.Server(options.model or scratch, *serve_arguments)
        began = time.monotonic()
        stress = Stress(server, mixed_requests(random.Random(options.seed),
                                               REQUESTS, end_id))
        solo_s = time.monotonic() - began

        def is_done(counts):
            if options.replies:
                return counts.finished >= options.replies
            return time.monotonic() - began - solo_s >= options.seconds

        stress.run(options.clients, options.seed, is_done)
        seconds = time.monotonic() - began - solo_s
        server.stop()
    print(json.dumps({
        "clients": options.clients, "requests": REQUESTS,
        "alone_s": round(solo_s, 1), "together_s": round(seconds, 1),
        "finished": stress.finished, "left": stress.left,
        "tokens": stress.tokens, "faults": len(stress.faults)}))
    if stress.faults:
        sys.exit(stress.faults[0])


if __name__ == "__main__":
    main()
