"""Cases A: validation of requests, and transport. (tests/cases/INDEX.md)"""

import contextlib
import json
import socket
import struct

import harness
import replies

NULLS = dict.fromkeys((
    "model", "temperature", "max_tokens", "max_completion_tokens", "top_p",
    "top_k", "min_p", "seed", "stop", "n", "logprobs", "top_logprobs",
    "logit_bias", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "tools", "tool_choice", "response_format",
    "reasoning_effort", "chat_template_kwargs", "parallel_tool_calls", "user",
    "store", "metadata", "service_tier"))
HELLO = [{"role": "user", "content": "hi @plain"}]


class CasesA(harness.ServerCase):

    def test_a01_null_is_absent(self):
        whole, _ = self.both_forms(self.chat, "hi @plain", **NULLS)
        self.assertEqual(whole.text, "Good morning.")
        self.assertEqual(whole.finish, "stop")
        nulls = {k: v for k, v in NULLS.items() if k != "top_logprobs"}
        whole, _ = self.both_forms(self.completion, "@plain", **nulls,
                                   echo=None, best_of=None, suffix=None)
        self.assertEqual(whole.text, "Good morning.")

    def test_a01_the_reported_request(self):
        body = {"messages": HELLO, "model": None, "temperature": 0.8,
                "max_tokens": None, "stream": True, "stream_options": None,
                "seed": 1}
        connection, response = self.server.open(
            "POST", "/v1/chat/completions", body)
        with contextlib.closing(connection):
            self.assertEqual(response.status, 200)
            chunks, _ = replies.read_events(response)
        # Nobody asked for usage: the last chunk is the one that ends the
        # choice.
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")

    def test_a02_values_out_of_range(self):
        faults = {
            "temperature": (999999.0, -0.5, 1e400), "top_p": (-1.0, 1.5),
            "top_k": (-2,), "min_p": (-0.1, 1.1),
            "repetition_penalty": (0.0, -1.0), "presence_penalty": (1e9,),
            "frequency_penalty": (-1e9,), "max_tokens": (-7,), "n": (0, -1),
            "top_logprobs": (21, -2),
        }
        for field, values in faults.items():
            for value in values:
                with self.subTest(field=field, value=value):
                    body = json.dumps({"messages": HELLO, "logprobs": True,
                                       field: value})
                    body = body.replace("Infinity", "1e400")
                    reply = self.server.post("/v1/chat/completions", body)
                    # A number that no double holds is no JSON for some.
                    param = None if value == 1e400 else field
                    self.refused(reply, param=param)
        self.check_serves()

    def test_a02_the_reported_request(self):
        body = {"messages": HELLO, "temperature": 999999.0, "top_p": -1.0,
                "repeat_penalty": 0.0}
        self.refused(self.server.post("/v1/chat/completions", body),
                     param="temperature", words=("temperature", "999999"))
        self.check_serves()

    def test_a02_wrong_types(self):
        faults = {
            "temperature": ("warm", [], True), "max_tokens": ("9", 1.5, {}),
            "stop": (5, [1], {"a": "b"}), "logit_bias": ([1], {"x": 1}, "a"),
            "messages": ("hi", [], {}, [5], [{"role": 5, "content": "x"}],
                         [{"content": "no role"}],
                         [{"role": "user", "content": 5}]),
            "stream": ("yes", 1), "seed": ("a", 1.5), "n": ("2",),
            "tools": ({}, "x", [5]), "logprobs": (2, "yes"),
        }
        for field, values in faults.items():
            for value in values:
                with self.subTest(field=field, value=value):
                    reply = self.server.post(
                        "/v1/chat/completions",
                        {"messages": HELLO, field: value})
                    error = self.refused(reply)
                    self.assertTrue(error["param"].startswith(field), error)
        self.check_serves()

    def test_a02_bodies_that_are_no_requests(self):
        for body in (b"", b"{", b"[]", b"5", b"null", b'"x"', b"{}",
                     b'{"messages":[]} x', b"[" * 100000,
                     b'{"messages":' * 20000, b"\0", b"\xef\xbb\xbf{}"):
            with self.subTest(body=body[:20]):
                self.refused(self.server.post("/v1/chat/completions", body))
                self.refused(self.server.post("/v1/completions", body))
        self.check_serves()

    def test_a04_top_k_of_minus_one_is_off(self):
        fields = dict(temperature=1.5, seed=5, max_tokens=30, **self.endless)
        off, _ = self.both_forms(self.completion, "some", **fields)
        minus, _ = self.both_forms(self.completion, "some", top_k=-1, **fields)
        self.assertEqual(minus.choices, off.choices)
        one = self.completion("some", top_k=1, **fields)
        self.assertNotEqual(one.choices, off.choices)

    def test_a07_body_that_is_not_utf8(self):
        body = (b'{"messages":[{"role":"user","content":"\xc4\xe3\xba\xc3"}]}')
        self.refused(self.server.post("/v1/chat/completions", body),
                     words=("UTF-8",))
        self.check_serves()

    def test_a08_errors_that_quote_bad_bytes(self):
        bodies = (b'{"model":"\xff\xfe","messages":[]}',
                  b'{"model":"\\ud800","messages":[]}',
                  b'{"\xff":1,"messages":[]}', b'\xff\xfe{}',
                  b'{"messages":[{"role":"\xff","content":"x"}]}')
        for body in bodies:
            with self.subTest(body=body):
                self.refused(self.server.post("/v1/chat/completions", body))
        reply = self.server.get("/v1/models/%ff%fe")
        self.refused(reply, status=404)
        self.check_serves()

    def test_a08_bad_bytes_in_the_head(self):
        for head in (b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"GET /v1/models/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"\xff\xfe / HTTP/1.1\r\nHost: x\r\n\r\n"):
            with self.subTest(head=head):
                got = self.server.raw(head)
                self.assertRegex(got, rb"^HTTP/1\.1 4\d\d ")
                json.loads(got.split(b"\r\n\r\n", 1)[1].decode("utf-8"))
        self.check_serves()

    def test_a10_a_bias_ends_with_its_request(self):
        dot = self.model.ids["."]
        first = self.completion("@plain", max_tokens=1, cache_prompt=True,
                                logit_bias={dot: 100})
        self.assertEqual(first.text, ".")
        second, _ = self.both_forms(self.completion, "@plain", max_tokens=4)
        self.assertEqual(second.text, "Good morning.")

    def test_a10_the_reported_form_of_a_bias(self):
        first = self.completion("@plain", max_tokens=1, cache_prompt=True,
                                logit_bias=[[".", 100]])
        self.assertEqual(first.text, ".")
        second = self.completion("@plain", max_tokens=4)
        self.assertEqual(second.text, "Good morning.")

    def test_a11_a_banned_token_does_not_come(self):
        banned = self.model.ids[" morning"]
        for fields in ({}, {"temperature": 1.5, "seed": 3}, {"n": 4,
                       "temperature": 1.5, "seed": 3}):
            with self.subTest(fields):
                whole, _ = self.both_forms(
                    self.chat, "hi @plain", max_tokens=20,
                    logit_bias={banned: -100}, **fields)
                for choice in whole.choices:
                    text = choice["message"]["content"]
                    self.assertNotIn(" morning", text)
        self.assertEqual(self.chat("@plain").text, "Good morning.")

    def test_a17_the_query_is_no_part_of_the_path(self):
        for query in ("?beta=true", "?api-version=1", "?", "?a=b%2Fc&&="):
            with self.subTest(query=query):
                reply = self.server.post("/v1/chat/completions" + query,
                                         {"messages": HELLO})
                self.assertEqual(reply.status, 200)
                for path in ("/v1/models", "/health", "/stats"):
                    self.assertEqual(self.server.get(path + query).status, 200)

    def test_a19_objects_and_ids(self):
        ids = set()
        for stream in (False, True) * 2:  # the forms are checked in replies.py
            ids.add(self.chat("@plain", stream=stream).id)
            ids.add(self.completion("@plain", stream=stream).id)
        self.assertEqual(len(ids), 8)


class CasesASmallContext(harness.ServerCase):
    POSITIONS = 64

    def test_a04_a_prompt_longer_than_the_context(self):
        prompt = "z" * 100  # a token each
        for fields in ({}, {"stream": True}, {"max_tokens": 1}):
            for path, body in (
                    ("/v1/completions", {"prompt": prompt}),
                    ("/v1/chat/completions", {"messages": [
                        {"role": "user", "content": prompt}]})):
                with self.subTest(path, **fields):
                    self.refused(
                        self.server.post(path, {**body, **fields}),
                        code="context_length_exceeded",
                        words=("maximum context length is 64 tokens", "1"))
        error = self.refused(self.server.post("/v1/completions",
                                              {"prompt": prompt}))
        self.assertIn("100", error["message"])
        self.check_serves()

    def test_a05_generation_stops_at_the_context(self):
        for n_keep in (1000, -5):
            for fields in ({}, {"max_tokens": 4000}):
                with self.subTest(n_keep=n_keep, **fields):
                    answer, _ = self.both_forms(
                        self.completion, "z" * 60, n_keep=n_keep,
                        **self.endless, **fields)
                    self.assertEqual(answer.finish, "length")
                    self.assertEqual(answer.usage["total_tokens"], 64)
        self.check_serves()


class CasesACancel(harness.ServerCase):
    """Requests whose client goes away, counted in /stats."""
    POSITIONS = 65536
    TOKENS = 60000
    ARGUMENTS = ("--batch", "2", "--queue", "4")

    def setUp(self):
        self.before = self.counts()

    def start(self, **fields):
        """A socket on which the request was sent."""
        body = json.dumps({"prompt": "go on", "max_tokens": self.TOKENS,
                           **self.endless, **fields}).encode()
        sock = self.server.connect_socket()
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return sock

    def check_cancelled(self, requests):
        counts = self.wait_until_idle()
        self.assertEqual(counts["cancelled"] - self.before["cancelled"],
                         requests)
        self.assertLess(counts["generated"] - self.before["generated"],
                        requests * self.TOKENS)

    def test_a13_in_decode(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                self.before = self.counts()
                sock = self.start(stream=stream)
                self.wait_for(lambda c: c["rows"] == 1)
                sock.close()
                self.check_cancelled(1)

    def test_a13_in_prefill(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                self.before = self.counts()
                sock = self.start(stream=stream, prompt=[40] * self.TOKENS)
                self.wait_for(lambda c: c["joining"] == 1)
                sock.close()
                self.check_cancelled(1)

    def test_a13_in_the_queue(self):
        running = [self.start(), self.start()]
        self.wait_for(lambda c: c["rows"] == 2)
        for stream in (False, True):
            queued = self.start(stream=stream)
            self.wait_for(lambda c: c["queued"] == 1)
            queued.close()
            counts = self.wait_for(lambda c: c["queued"] == 0)
            self.assertEqual(counts["rows"], 2)
        for sock in running:
            sock.close()
        self.check_cancelled(4)

    def test_a14_closed_after_the_first_event(self):
        for _ in range(5):
            for reset in (False, True):
                sock = self.start(stream=True)
                data = b""
                while b"data: " not in data:
                    data += sock.recv(4096)
                if reset:  # RST in place of FIN
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                    struct.pack("ii", 1, 0))
                sock.close()
        self.check_cancelled(10)
        self.check_serves()
