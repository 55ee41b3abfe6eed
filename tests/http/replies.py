"""Answers of the server: read, checked for their form, and folded.

A streamed answer is folded to the very structure of a whole one, so that tests
compare the two.
"""

import dataclasses
import json


@dataclasses.dataclass
class Reply:
    status: int
    headers: object
    body: bytes

    def json(self):
        return json.loads(self.body, parse_constant=_no_constant)


@dataclasses.dataclass
class Answer:
    """Choices without what differs between two runs: the ids of calls."""
    id: str
    model: str
    choices: list
    usage: dict
    deltas: list = dataclasses.field(default_factory=list)  # texts as they came
    comments: list = dataclasses.field(default_factory=list)

    @property
    def finish(self):
        return self.choices[0]["finish_reason"]

    @property
    def text(self):
        choice = self.choices[0]
        return choice["text"] if "text" in choice else (
            choice["message"]["content"] or "")

    @property
    def message(self):
        return self.choices[0]["message"]

    @property
    def calls(self):
        """[(name, arguments)]"""
        return [(c["function"]["name"], c["function"]["arguments"])
                for c in self.message.get("tool_calls") or []]

    @property
    def logprobs(self):
        return self.choices[0]["logprobs"]


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(repr, what)))


def _no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def loads(text):
    return json.loads(text, parse_constant=_no_constant)


def read_events(response):
    """(data of the events in order, comments); [DONE] has to end them."""
    check(response.headers["Content-Type"]
          == "text/event-stream; charset=utf-8", response.headers.items())
    check("no-cache" in response.headers["Cache-Control"])
    check(response.headers["X-Accel-Buffering"] == "no")
    return parse_events(response.read())


def parse_events(body):
    events, comments = [], []
    for block in body.decode("utf-8").split("\n\n"):
        if block.startswith(":"):
            check("\n" not in block, block)
            comments.append(block)
        elif block:
            check(block.startswith("data: ") and "\n" not in block, block)
            events.append(block.removeprefix("data: "))
    check(events and events[-1] == "[DONE]", events[-3:])
    return [loads(e) for e in events[:-1]], comments


def chat_answer(body):
    check(body["object"] == "chat.completion", body["object"])
    check(body["id"].startswith("chatcmpl-"), body["id"])
    check(isinstance(body["created"], int))
    for choice in body["choices"]:
        message = choice["message"]
        check(message["role"] == "assistant", message)
        check("content" in message and message.get("refusal") is None, message)
        check("logprobs" in choice, choice)
        for call in message.get("tool_calls") or []:
            _check_call_id(call.pop("id"))
            check(call["type"] == "function", call)
    _check_usage(body["usage"])
    return Answer(body["id"], body["model"], _normal_messages(body["choices"]),
                  body["usage"])


def completion_answer(body):
    check(body["object"] == "text_completion", body["object"])
    check(body["id"].startswith("cmpl-"), body["id"])
    _check_usage(body["usage"])
    return Answer(body["id"], body["model"], body["choices"], body["usage"])


def fold_chat(stream):
    chunks, comments = stream
    head = chunks[0]
    folds = {}
    usage, deltas = _common_fields(chunks, "chat.completion.chunk"), []
    for choice in _choices(chunks):
        fold = folds.setdefault(choice["index"], _ChatFold(choice["index"]))
        text = fold.add(choice)
        if text:
            deltas.append(text)
    return Answer(head["id"], head["model"],
                  _normal_messages([folds[i].whole() for i in sorted(folds)]),
                  usage, deltas, comments)


class _ChatFold:
    """The message that one choice's deltas add up to."""

    def __init__(self, index):
        self.index = index
        self.message = {}
        self.calls = []
        self.logprobs = None
        self.finish = None
        self.rest = {}

    def add(self, choice):
        delta = choice["delta"]
        check(self.finish is None, "a delta after the end", choice)
        if not self.message:
            check(delta == {"role": "assistant", "content": ""}, delta)
            self.message = {"role": "assistant", "content": ""}
            check(choice["finish_reason"] is None, choice)
            return ""
        check("role" not in delta, "the role twice", delta)
        if choice["finish_reason"] is not None:
            check(delta == {}, delta)
            self.finish = choice["finish_reason"]
        for key in ("content", "reasoning", "reasoning_content"):
            if key in delta:
                check(delta[key], "an empty delta", choice)
                self.message[key] = self.message.get(key, "") + delta[key]
        for call in delta.get("tool_calls") or []:
            self._add_call(call)
        if "stop_reason" in choice:
            self.rest["stop_reason"] = choice["stop_reason"]
        if choice.get("logprobs"):
            self.logprobs = self.logprobs or {"content": []}
            self.logprobs["content"] += choice["logprobs"]["content"]
        return delta.get("content", "")

    def _add_call(self, delta):
        function = delta["function"]
        if delta["index"] == len(self.calls):
            _check_call_id(delta["id"])
            check(delta["type"] == "function", delta)
            self.calls.append({"type": "function", "function": {
                "name": function["name"],
                "arguments": function["arguments"]}})
            return
        check(delta["index"] == len(self.calls) - 1, "an earlier call", delta)
        check(not {"id", "name"} & {*delta, *function}, "named twice", delta)
        self.calls[-1]["function"]["arguments"] += function["arguments"]

    def whole(self):
        check(self.finish is not None, "no finish_reason", self.message)
        message = dict(self.message)
        if self.calls:
            message["tool_calls"] = self.calls
        return {"index": self.index, "message": message,
                "logprobs": self.logprobs, "finish_reason": self.finish,
                **self.rest}


def fold_completion(stream):
    chunks, comments = stream
    head = chunks[0]
    wholes, deltas = {}, []
    usage = _common_fields(chunks, "text_completion")
    for choice in _choices(chunks):
        index = choice["index"]
        whole = wholes.get(index)
        if whole is None:
            wholes[index] = whole = {"index": index, "text": "",
                                     "logprobs": None, "finish_reason": None}
        check(whole["finish_reason"] is None, "text after the end", choice)
        whole["text"] += choice["text"]
        whole["finish_reason"] = choice["finish_reason"]
        if "stop_reason" in choice:
            whole["stop_reason"] = choice["stop_reason"]
        for key, value in (choice.get("logprobs") or {}).items():
            whole["logprobs"] = whole["logprobs"] or {}
            if value is None:  # no top_logprobs
                check(whole["logprobs"].setdefault(key) is None, choice)
            else:
                whole["logprobs"][key] = (whole["logprobs"].get(key) or []
                                          ) + value
        if choice["text"]:
            deltas.append(choice["text"])
    for whole in wholes.values():
        check(whole["finish_reason"] is not None, "no finish_reason", whole)
    return Answer(head["id"], head["model"],
                  [wholes[i] for i in sorted(wholes)], usage, deltas, comments)


def _choices(chunks):
    return [choice for chunk in chunks for choice in chunk["choices"]]


def _common_fields(chunks, kind):
    """Checks what all chunks share; returns the usage of the last."""
    for chunk in chunks:
        check(chunk["object"] == kind, chunk["object"])
        for key in ("id", "created", "model"):
            check(chunk[key] == chunks[0][key], "differs", key, chunk)
    for chunk in chunks[:-1]:
        check(len(chunk["choices"]) == 1, "not one choice", chunk)
        check(chunk.get("usage") is None, "usage before the end", chunk)
    check(chunks[-1]["choices"] == [], chunks[-1])
    _check_usage(chunks[-1]["usage"])
    return chunks[-1]["usage"]


def _check_usage(usage):
    check(usage["total_tokens"]
          == usage["prompt_tokens"] + usage["completion_tokens"], usage)
    check(usage["prompt_tokens_details"]["cached_tokens"] >= 0, usage)


def _check_call_id(call_id):
    check(isinstance(call_id, str) and call_id.startswith("call_"), call_id)


def _normal_messages(choices):
    """Without the ways to say that a message has no such part."""
    for choice in choices:
        message = choice["message"]
        message.pop("refusal", None)
        message["content"] = message["content"] or ""
        if choice["logprobs"]:
            choice["logprobs"].pop("refusal", None)
        if not message.get("tool_calls"):
            message.pop("tool_calls", None)
    return choices
