"""Cases K: the grammar of the events. (tests/cases/INDEX.md)

Every streamed answer of these tests is folded by replies.py, which refuses
what the grammar forbids; here are the cases' own inputs.
"""

import contextlib
import re

import harness
import replies
from test_cases_f import tool


class CasesK(harness.ServerCase):
    SCRIPTS = {
        "@plain": ["Good", " morning", "."],
        "@all": ["<think>", "hm", "</think>", "so ",
                 "<tool_call>{\"name\": \"f\", \"arguments\": {}}",
                 "</tool_call>"],
    }

    def chunks(self, path, **fields):
        connection, response = self.server.open(
            "POST", path, {"stream": True, **fields})
        with contextlib.closing(connection):
            self.assertEqual(response.status, 200)
            return replies.read_events(response)[0]

    def test_k14_finish_reason_is_null_until_the_last(self):
        for path, fields in (
                ("/v1/chat/completions",
                 {"messages": [{"role": "user", "content": "@plain"}]}),
                ("/v1/completions", {"prompt": "@plain"})):
            with self.subTest(path):
                reasons = [c["finish_reason"] for chunk
                           in self.chunks(path, **fields)
                           for c in chunk["choices"]]
                self.assertEqual(reasons[-1], "stop")
                self.assertEqual(set(reasons[:-1]), {None})

    def test_k17_one_field_for_each_part(self):
        chunks = self.chunks(
            "/v1/chat/completions", tools=[tool("f")],
            messages=[{"role": "user", "content": "@all"}])
        deltas = [c["choices"][0]["delta"] for c in chunks]
        parts = [set(d) - {"index"} for d in deltas]
        self.assertEqual(parts[0], {"role", "content"})
        reasoning = {"reasoning", "reasoning_content"}
        for part in parts[1:-1]:
            self.assertIn(part, (reasoning, {"content"}, {"tool_calls"}))
        order = [sorted(p)[0] for p in parts[1:-1]]
        self.assertEqual(sorted(set(order), key=order.index),
                         ["reasoning", "content", "tool_calls"])
        self.assertEqual(parts[-1], set())
        for delta in deltas[1:]:
            self.assertNotIn("think", delta.get("content", ""))

    def test_no_usage_unless_asked(self):
        body = {"messages": [{"role": "user", "content": "@plain"}]}
        for options in (None, {}, {"include_usage": False}):
            chunks = self.chunks("/v1/chat/completions", **body,
                                 stream_options=options)
            self.assertTrue(all(c["choices"] for c in chunks))
            self.assertFalse(any(c.get("usage") for c in chunks))

    def test_the_first_delta_is_the_role(self):
        chunks = self.chunks("/v1/chat/completions", max_tokens=0, messages=[
            {"role": "user", "content": "@plain"}])
        self.assertEqual([c["choices"][0]["delta"] for c in chunks],
                         [{"role": "assistant", "content": ""}, {}])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")


class CasesKLongPrompts(harness.ServerCase):
    POSITIONS = 32768
    ARGUMENTS = ("--keepalive", "0.01", "--prefill-chunk", "256")

    def test_a16_k16_comments_during_a_long_prompt(self):
        length = 30000
        for path, body in (
                ("/v1/completions", {"prompt": "z" * length}),
                ("/v1/chat/completions", {"messages": [
                    {"role": "user", "content": "z" * length + "@plain"}]})):
            with self.subTest(path):
                connection, response = self.server.open(
                    "POST", path, {**body, "stream": True, "max_tokens": 2})
                with contextlib.closing(connection):
                    raw = response.read()
                chunks, comments = replies.parse_events(raw)
                self.check_comments(comments, length)
                self.assertTrue(all(c["choices"] for c in chunks))
                self.assertGreater(raw.index(b"data: "),
                                   raw.index(b": keepalive"))

    def check_comments(self, comments, length):
        progress = [re.fullmatch(r": keepalive (\d+)/(\d+)", c)
                    for c in comments]
        self.assertTrue(progress, "no comment")
        self.assertTrue(all(progress), comments)
        done = [int(p[1]) for p in progress]
        self.assertEqual(done, sorted(done))
        self.assertGreater(done[-1], 0)
        self.assertGreaterEqual(int(progress[-1][2]), length)
        self.assertEqual(len({p[2] for p in progress
                              if p[2] != "0"}), 1, comments)


class Overload(harness.ServerCase):
    """More requests than the queue holds."""
    POSITIONS = 65536
    ARGUMENTS = ("--batch", "1", "--queue", "1")

    def test_beyond_the_queue_is_429(self):
        body = {"prompt": "go", "max_tokens": 60000, "stream": True,
                **self.endless}
        running = self.server.open("POST", "/v1/completions", body)
        self.assertEqual(running[1].status, 200)
        waiting = self.server.open("POST", "/v1/completions", body)
        self.assertEqual(waiting[1].status, 200)
        for stream in (False, True):
            reply = self.server.post("/v1/completions",
                                     {"prompt": "@plain", "stream": stream})
            error = self.refused(reply, status=429)
            self.assertEqual(error["type"], "rate_limit_error")
            self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
        # Two prompts in one request: all or none.
        reply = self.server.post("/v1/completions", {"prompt": ["a", "b"]})
        self.refused(reply, status=429)
        for connection, _ in (running, waiting):
            connection.close()
        self.wait_until_idle()
        self.check_serves()

    def test_more_prompts_than_batch_and_queue(self):
        reply = self.server.post("/v1/completions", {"prompt": ["a"] * 3})
        self.refused(reply, status=reply.status)
        self.assertIn(reply.status, (400, 429))
        self.check_serves()
