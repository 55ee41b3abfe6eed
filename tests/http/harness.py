"""A quern server on a scripted model, for tests over HTTP.

Settings: QUERN_BINARY, the program. tools/ must be in PYTHONPATH.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import replies
import scripted_model

BINARY = os.environ.get("QUERN_BINARY", "")
PATIENCE_S = 300  # of one answer: sanitizers slow the server down
FAULTS = re.compile(r"Sanitizer|runtime error:|terminate called|Assertion")


class Model:
    """A scripted model (tools/scripted_model.py), perhaps with another
    template, written to `path`. `shape` is for scripted_model.build."""

    def __init__(self, path, scripts, template=None, positions=4096, **shape):
        self.path = path
        scripted_model.build(scripts, path, positions, **shape)
        config = self._read("config.json")
        self.width = config["vocab_size"]  # logits in a row
        self.end = config["eos_token_id"]
        self.ids = {t["content"]: t["id"]
                    for t in self._read("tokenizer.json")["added_tokens"]}
        if template is not None:
            config = self._read("tokenizer_config.json")
            with open(os.path.join(path, "tokenizer_config.json"), "w") as f:
                json.dump({**config, "chat_template": template}, f)

    def _read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as f:
            return json.load(f)


class Server:
    """`quern serve MODEL ARGUMENTS`, on a free port unless it has --unix."""

    def __init__(self, model, *arguments):
        self._log = tempfile.TemporaryFile()
        unix = "--unix" in arguments
        self.unix = arguments[arguments.index("--unix") + 1] if unix else None
        self.process = subprocess.Popen(
            [BINARY, "serve", model, *([] if unix else ["--port", "0"]),
             *arguments],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self.host, self.port = "127.0.0.1", None
        try:
            self._wait_until_ready()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def log(self):
        file = self._log.fileno()  # its position is the server's
        written = os.pread(file, os.fstat(file).st_size, 0)
        return written.decode("utf-8", "replace")

    def wait_for_log(self, text):
        """Lines are written behind the answers, those of two connections in
        any order."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.log():
            if time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} in the log:\n{self.log()}")
            time.sleep(0.01)

    def _wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError("the server ended at its start, exit "
                                     f"code {self.process.returncode}:\n"
                                     f"{self.log()}")
            if self._is_ready():
                return
            time.sleep(0.02)
        raise AssertionError(f"the server does not get ready:\n{self.log()}")

    def _is_ready(self):
        if not self.unix and self.port is None:
            url = re.search(r"http://127\.0\.0\.1:(\d+)", self.log())
            if not url:
                return False
            self.port = int(url[1])
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/health").status == 200
        return False

    def stop(self):
        """Ends it as a user would, and checks how it ended."""
        self.process.send_signal(signal.SIGTERM)
        self.check_end()

    def check_end(self):
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server does not end on SIGTERM:\n"
                                 + self.log()) from None
        log = self.log()
        self._log.close()
        if code != 0 or FAULTS.search(log):
            raise AssertionError(f"the server's exit code: {code}\n{log}")

    def url(self, path=""):
        return f"http://{self.host}:{self.port}{path}"

    def connect_socket(self):
        if self.unix:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(PATIENCE_S)
            try:
                sock.connect(self.unix)
            except OSError:
                sock.close()
                raise
            return sock
        return socket.create_connection((self.host, self.port), PATIENCE_S)

    def connect(self):
        connection = http.client.HTTPConnection(self.host, self.port,
                                                timeout=PATIENCE_S)
        connection.sock = self.connect_socket()
        return connection

    def open(self, method, path, body=None, headers=None):
        """(connection, response whose body is not read yet)"""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def request(self, method, path, body=None, headers=None):
        connection, response = self.open(method, path, body, headers)
        with contextlib.closing(connection):
            return replies.Reply(response.status, response.headers,
                                 response.read())

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def raw(self, data, is_all=True):
        """Sends bytes, returns all that comes until the server closes. With
        is_all the server is told that no more will be sent."""
        with self.connect_socket() as sock:
            sock.sendall(data)
            if is_all:
                sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(65536), b""))


class Client(unittest.TestCase):
    """Asks self.server and checks what it says."""

    server = None

    def token_ids(self, text):
        reply = self.server.post("/tokenize", {"content": text})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json()["tokens"]

    def chat(self, messages, stream=False, **fields):
        """The answer of a chat; a string is the user's only message."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        body = {"messages": messages, **fields}
        return self._answer("/v1/chat/completions", body, stream,
                            replies.chat_answer, replies.fold_chat)

    def completion(self, prompt, stream=False, **fields):
        return self._answer("/v1/completions", {"prompt": prompt, **fields},
                            stream, replies.completion_answer,
                            replies.fold_completion)

    def _answer(self, path, body, stream, whole, fold):
        if not stream:
            reply = self.server.post(path, body)
            self.assertEqual(reply.status, 200, reply.body)
            return whole(reply.json())
        body = {**body, "stream": True,
                "stream_options": {"include_usage": True}}
        connection, response = self.server.open("POST", path, body)
        with contextlib.closing(connection):
            if response.status != 200:
                self.fail(f"{response.status} {response.read()}")
            return fold(replies.read_events(response))

    def both_forms(self, ask, *arguments, **fields):
        """The answer, which has to be the same whole and streamed."""
        whole = ask(*arguments, **fields)
        streamed = ask(*arguments, stream=True, **fields)
        self.assertEqual(streamed.choices, whole.choices)
        self.assertEqual(streamed.usage, whole.usage)
        return whole, streamed

    def refused(self, reply, status=400, param=None, code=None, words=()):
        """Checks an error of OpenAI's form."""
        self.assertEqual(reply.status, status, reply.body)
        error = reply.json()["error"]
        self.assertIsInstance(error["message"], str)
        self.assertTrue(error["message"])
        self.assertIsInstance(error["type"], str)
        self.assertLessEqual({"param", "code"}, error.keys())
        if param is not None:
            self.assertEqual(error["param"], param, error)
        if code is not None:
            self.assertEqual(error["code"], code, error)
        for word in words:
            self.assertIn(word, error["message"])
        return error

    def counts(self):
        """What /stats counts of the engine's requests."""
        stats = self.server.get("/stats").json()
        batch = stats["batch"]
        return {"rows": batch["active_rows"], "joining": batch["joining_rows"],
                "queued": batch["pending_rows"], "kv_bytes": batch["kv_bytes"],
                "cancelled": stats["requests"]["cancelled"],
                "generated": stats["throughput"]["generated_tokens"]}

    def wait_for(self, condition):
        """The counts when they fulfil the condition."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            counts = self.counts()
            if condition(counts):
                return counts
            time.sleep(0.02)
        self.fail(f"still {counts}")

    def wait_until_idle(self):
        return self.wait_for(lambda c: c["rows"] + c["joining"]
                             + c["queued"] == 0)

    def check_serves(self):
        """The server still answers."""
        self.assertEqual(self.chat("hi @plain").text, "Good morning.")


class ServerCase(Client):
    """Tests that share one server on a scripted model."""

    SCRIPTS = {"@plain": ["Good", " morning", "."]}
    TEMPLATE = None
    POSITIONS = 4096
    ARGUMENTS = ()

    @classmethod
    def setUpClass(cls):
        path = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.model = Model(path, cls.SCRIPTS, cls.TEMPLATE, cls.POSITIONS)
        cls.endless = {"logit_bias": {cls.model.end: -100}}  # no end token
        cls.server = Server(path, *cls.ARGUMENTS)
        cls.addClassCleanup(cls.server.stop)
