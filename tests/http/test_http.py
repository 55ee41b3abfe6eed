"""The server as an HTTP/1.1 server: methods, bodies, limits, keys, metrics."""

import contextlib
import json
import os
import signal
import socket
import tempfile
import threading

from prometheus_client.parser import text_string_to_metric_families

import harness
import replies

CHAT = {"messages": [{"role": "user", "content": "hi @plain"}]}


def status_of(raw):
    return int(raw.split(b" ", 2)[1])


def body_of(raw):
    return raw.split(b"\r\n\r\n", 1)[1]


class Http(harness.ServerCase):

    def test_head_answers_as_get_without_a_body(self):
        for path in ("/health", "/v1/models", "/stats", "/v1", "/metrics"):
            with self.subTest(path):
                head = self.server.request("HEAD", path)
                self.assertEqual(head.status, 200)
                self.assertEqual(head.body, b"")
                get = self.server.get(path)
                self.assertEqual(head.headers["Content-Type"],
                                 get.headers["Content-Type"])
                self.assertGreater(int(head.headers["Content-Length"]), 0)
        self.assertEqual(self.server.request("HEAD", "/nothing").status, 404)

    def test_options_and_cors(self):
        for path in ("/v1/chat/completions", "/models"):
            reply = self.server.request("OPTIONS", path, headers={
                "Origin": "http://localhost:3000",
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,x-thing"})
            self.assertEqual((reply.status, reply.body), (204, b""))
            self.assertEqual(reply.headers["Access-Control-Allow-Origin"], "*")
            self.assertIn("POST", reply.headers["Access-Control-Allow-Methods"])
            self.assertIn("authorization", reply.headers[
                "Access-Control-Allow-Headers"].lower())
        for reply in (self.server.get("/v1/models", Origin="http://a"),
                      self.server.get("/v1/nothing", Origin="http://a"),
                      self.server.post("/v1/chat/completions",
                                       {**CHAT, "stream": True},
                                       {"Origin": "http://a"})):
            self.assertEqual(reply.headers["Access-Control-Allow-Origin"], "*")

    def test_one_connection_for_many_requests(self):
        with contextlib.closing(self.server.connect()) as connection:
            for stream in (False, True, False):
                connection.request("POST", "/v1/chat/completions",
                                   json.dumps({**CHAT, "stream": stream}),
                                   {"Content-Type": "application/json"})
                response = connection.getresponse()
                self.assertEqual(response.status, 200)
                response.read()
                connection.request("GET", "/nothing")
                response = connection.getresponse()
                self.assertEqual(response.status, 404)
                response.read()

    def test_requests_that_do_not_wait_for_answers(self):
        got = self.server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        self.assertEqual(got.count(b"HTTP/1.1 200 "), 3)

    def test_connection_close_and_http_1_0(self):
        for head in (b"GET /health HTTP/1.1\r\nHost: x\r\n"
                     b"Connection: close\r\n\r\n",
                     b"GET /health HTTP/1.0\r\n\r\n"):
            got = self.server.raw(head, is_all=False)
            self.assertEqual(status_of(got), 200)
            self.assertEqual(body_of(got), b'{"status": "ok"}')

    def test_streams_for_http_1_0(self):
        """No chunks: the end of the connection is the end."""
        body = json.dumps({**CHAT, "stream": True}).encode()
        got = self.server.raw(
            b"POST /v1/chat/completions HTTP/1.0\r\n"
            b"Content-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body, is_all=False)
        self.assertEqual(status_of(got), 200)
        chunks, _ = replies.parse_events(body_of(got))
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")

    def test_chunked_bodies(self):
        body = json.dumps(CHAT).encode()
        with contextlib.closing(self.server.connect()) as connection:
            connection.request("POST", "/v1/chat/completions",
                               iter([body[:5], body[5:6], body[6:]]),
                               {"Content-Type": "application/json"},
                               encode_chunked=True)
            response = connection.getresponse()
            self.assertEqual(response.status, 200, response.read())

    def test_bad_chunks(self):
        for chunks in (b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n\r\n",
                       b"ffffffffffffffffff\r\nx"):
            got = self.server.raw(
                b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                b"Content-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
            self.assertIn(status_of(got), (400, 413), chunks)
        self.check_serves()

    def test_expect_100_continue(self):
        body = json.dumps(CHAT).encode()
        with self.server.connect_socket() as sock:
            sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                         b"Content-Type: application/json\r\n"
                         b"Expect: 100-continue\r\nConnection: close\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(body))
            got = sock.recv(65536)
            self.assertEqual(status_of(got), 100)
            sock.sendall(body)
            got = b"".join(iter(lambda: sock.recv(65536), b""))
        self.assertEqual(status_of(got), 200)

    def test_unknown_paths(self):
        for method, path in (("GET", "/v2/models"), ("GET", "/v1/models/"),
                             ("POST", "/v1/chat"), ("GET", "/.."),
                             ("GET", "/v1/v1/models"), ("DELETE", "/x"),
                             ("POST", "/v1/chat/completions/")):
            with self.subTest(path):
                self.refused(self.server.request(method, path), status=404)

    def test_methods_that_a_path_does_not_have(self):
        for method, path, allowed in (
                ("GET", "/v1/chat/completions", "POST"),
                ("DELETE", "/v1/models", "GET"), ("PUT", "/health", "GET"),
                ("PATCH", "/tokenize", "POST")):
            with self.subTest(path):
                reply = self.server.request(method, path)
                self.refused(reply, status=405)
                self.assertIn(allowed, reply.headers["Allow"])

    def test_bodies_that_are_too_large(self):
        got = self.server.raw(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/json\r\n"
            b"Content-Length: 99999999999\r\n\r\n")
        self.assertEqual(status_of(got), 413)
        self.assertIn("message", json.loads(body_of(got))["error"])

    def test_bodies_of_other_types(self):
        for kind in ("text/xml", "multipart/form-data; boundary=x",
                     "application/octet-stream"):
            with self.subTest(kind):
                reply = self.server.post("/v1/chat/completions",
                                         json.dumps(CHAT),
                                         {"Content-Type": kind})
                self.refused(reply, status=415)
        for kind in ("application/json; charset=utf-8", "Application/JSON"):
            reply = self.server.post("/v1/chat/completions", CHAT,
                                     {"Content-Type": kind})
            self.assertEqual(reply.status, 200)

    def test_heads_that_are_too_large(self):
        got = self.server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\nX: "
                              + b"a" * (1 << 20) + b"\r\n\r\n")
        self.assertIn(status_of(got), (400, 413, 431))
        self.check_serves()

    def test_bytes_that_are_no_request(self):
        for data in (b"\0" * 100, b"hello\r\n\r\n", b"GET\r\n\r\n",
                     b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
                     b"GET /health HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                     b"POST /v1/completions HTTP/1.1\r\n"
                     b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n{}  "):
            with self.subTest(data[:20]):
                got = self.server.raw(data)
                if got:
                    self.assertIn(status_of(got), range(400, 506))
        self.check_serves()

    def test_clients_that_leave_in_the_middle(self):
        for data in (b"", b"GET /hea", b"POST /v1/completions HTTP/1.1\r\n"
                     b"Content-Length: 1000\r\n\r\n{"):
            with self.server.connect_socket() as sock:
                sock.sendall(data)
        self.check_serves()

    def test_request_ids(self):
        for name in ("x-request-id",):
            reply = self.server.get("/v1/models", **{name: "abc-123"})
            self.assertEqual(reply.headers["x-request-id"], "abc-123")
        first, second = (self.server.get("/health").headers["x-request-id"]
                         for _ in range(2))
        self.assertTrue(first)
        self.assertNotEqual(first, second)
        reply = self.server.post("/v1/chat/completions",
                                 {**CHAT, "stream": True},
                                 {"x-request-id": "s1"})
        self.assertEqual(reply.headers["x-request-id"], "s1")
        # What could not stand in a log or a header is replaced.
        reply = self.server.get("/health", **{"x-request-id": "a b\xff" * 99})
        self.assertRegex(reply.headers["x-request-id"], r"^[\w.:-]+$")

    def test_paths_without_v1(self):
        for path in ("/models", "/v1/models"):
            self.assertEqual(self.server.get(path).json()["object"], "list")
        for path in ("/chat/completions", "/v1/chat/completions"):
            self.assertEqual(self.server.post(path, CHAT).status, 200)
        for path in ("/completions", "/v1/completions"):
            reply = self.server.post(path, {"prompt": "@plain"})
            self.assertEqual(reply.json()["choices"][0]["text"],
                             "Good morning.")
        for path in ("/health", "/v1/health"):
            self.assertEqual(self.server.get(path).body, b'{"status": "ok"}')

    def test_any_key_opens_a_server_without_keys(self):
        reply = self.server.get("/v1/models", Authorization="Bearer anything")
        self.assertEqual(reply.status, 200)

    def test_models(self):
        listed = self.server.get("/v1/models").json()
        model = listed["data"][0]
        self.assertEqual((listed["object"], model["object"]),
                         ("list", "model"))
        self.assertIsInstance(model["created"], int)
        self.assertIsInstance(model["owned_by"], str)
        for path in (model["id"], model["id"].replace("/", "%2F")):
            one = self.server.get("/v1/models/" + path.lstrip("/"))
            self.assertEqual(one.json(), model)
        self.refused(self.server.get("/v1/models/other"), status=404)
        self.assertEqual(self.chat("@plain").model, model["id"])

    def test_index(self):
        index = self.server.get("/v1").json()
        self.assertEqual(index["name"], "quern")
        self.assertIn("POST /v1/chat/completions", index["endpoints"])

    def test_tokenize_and_back(self):
        text = "na\u00efve \U0001F642 @plain\n"
        ids = self.token_ids(text)
        reply = self.server.post("/detokenize", {"tokens": ids})
        self.assertEqual(reply.json()["content"], text)
        for body in ({"tokens": [-1]}, {"tokens": [self.model.width + 5]},
                     {"tokens": "x"}, {"tokens": [2**40]}):
            self.refused(self.server.post("/detokenize", body))
        self.refused(self.server.post("/tokenize", {"content": 5}))

    def test_apply_template(self):
        reply = self.server.post("/apply-template", CHAT)
        self.assertEqual(reply.json()["prompt"],
                         "<|im_start|>user\nhi @plain<|im_end|>\n"
                         "<|im_start|>assistant@plain")

    def test_message_text_is_never_a_control_token(self):
        plain = self.chat("a<|im_end|>b @plain")
        self.assertEqual(plain.text, "Good morning.")
        letters = self.chat("a" + "z" * len("<|im_end|>") + "b @plain")
        self.assertEqual(plain.usage, letters.usage)

    def test_metrics(self):
        self.wait_until_idle()
        before = self.samples()
        self.chat("@plain")
        self.refused(self.server.get("/nothing"), status=404)
        after = self.samples()
        grown = {name for name in after
                 if after[name] > before.get(name, 0)}
        self.assertTrue(any("generated_tokens" in n for n, _ in grown), grown)
        tokens = [after[k] - before.get(k, 0) for k in grown
                  if "generated_tokens" in k[0]]
        self.assertEqual(tokens, [4])  # with the end token

    def samples(self):
        reply = self.server.get("/metrics")
        self.assertRegex(reply.headers["Content-Type"], r"^text/plain")
        samples = {}
        families = list(text_string_to_metric_families(reply.body.decode()))
        for family in families:
            self.assertTrue(family.documentation, family.name)
            self.assertNotEqual(family.type, "unknown", family.name)
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                self.assertNotIn(key, samples)
                samples[key] = sample.value
        self.assertTrue(samples)
        return samples

    def test_many_connections(self):
        """Idle ones cost nobody anything."""
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(self.server.connect_socket())
            self.check_serves()

    def test_the_access_log_names_requests(self):
        self.server.get("/v1/models?secret=1", **{"x-request-id": "logged-1"})
        self.server.get("/%0aforged%1b[31m%ff", **{"x-request-id": "last-1"})
        for name in ("logged-1", "last-1"):
            self.server.wait_for_log(name)
        self.assertNotRegex(self.server.log(), r"(?m)^forged|\x1b")


class Keys(harness.ServerCase):
    ARGUMENTS = ("--api-key", "first", "--api-key", "second")

    def request_with(self, headers):
        return self.server.request("GET", "/v1/models", headers=headers)

    def test_keys_that_open(self):
        for headers in ({"Authorization": "Bearer first"},
                        {"Authorization": "bearer second"},
                        {"x-api-key": "second"}):
            with self.subTest(headers):
                self.assertEqual(self.request_with(headers).status, 200)

    def test_keys_that_do_not(self):
        for headers in ({}, {"Authorization": "Bearer firs"},
                        {"Authorization": "first"}, {"x-api-key": ""},
                        {"Authorization": "Bearer first second"}):
            with self.subTest(headers):
                reply = self.request_with(headers)
                self.refused(reply, status=401, code="invalid_api_key")
                self.assertNotIn(b"second", reply.body)
        reply = self.server.post("/v1/chat/completions", CHAT)
        self.refused(reply, status=401)

    def test_open_to_all(self):
        self.assertEqual(self.server.get("/health").status, 200)
        preflight = self.server.request("OPTIONS", "/v1/models")
        self.assertEqual(preflight.status, 204)

    def test_keys_are_not_logged(self):
        self.request_with({"Authorization": "Bearer second"})
        self.assertNotIn("second", self.server.log())


class UnixSocket(harness.ServerCase):

    @classmethod
    def setUpClass(cls):
        scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.path = os.path.join(scratch, "quern.sock")
        cls.ARGUMENTS = ("--unix", cls.path)
        super().setUpClass()

    def test_serves(self):
        self.both_forms(self.chat, "@plain")
        self.assertEqual(os.stat(self.path).st_mode & 0o077, 0,
                         "for its user only")


class End(harness.Client):
    """Each test ends its server."""

    def setUp(self):
        path = self.enterContext(tempfile.TemporaryDirectory())
        model = harness.Model(path, harness.ServerCase.SCRIPTS,
                              positions=16384)
        self.endless = {"logit_bias": {model.end: -100}, "stream": True}
        self.server = harness.Server(path)

    def test_answers_under_way_are_finished(self):
        """SIGTERM drains: no new connection, the stream to its end."""
        connection, response = self.server.open("POST", "/v1/completions", {
            "prompt": "go", "max_tokens": 500, **self.endless,
            "stream_options": {"include_usage": True}})
        with contextlib.closing(connection):
            response.fp.peek(1)
            self.server.process.send_signal(signal.SIGTERM)
            answer = replies.fold_completion(replies.read_events(response))
        self.server.check_end()
        self.assertEqual(answer.finish, "length")
        self.assertEqual(answer.usage["completion_tokens"], 500)

    def test_idle_connections_do_not_hold_it(self):
        sockets = [self.server.connect_socket() for _ in range(3)]
        sockets[0].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(sockets[0].recv(100))
        sockets[1].sendall(b"POST /v1/completions HTTP/1.1\r\nConte")
        self.server.stop()
        for sock in sockets:
            sock.close()

    def test_a_client_that_reads_nothing_holds_nobody(self):
        body = json.dumps({"prompt": "go", "max_tokens": 16000,
                           **self.endless}).encode()
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(harness.PATIENCE_S)
        slow.connect((self.server.host, self.server.port))
        slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        threads = [threading.Thread(target=self.check_serves)
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.check_serves()
        slow.close()
        self.server.stop()
