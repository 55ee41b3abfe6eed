#!/usr/bin/env python3
"""Makes the first inputs of this folder's fuzz targets, under
tests/fuzz/corpus."""
import json
import os

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                      "fuzz", "corpus")
HELLO = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {
    "name": "f", "parameters": {"properties": {"a": {"enum": [1]}}}}}
SAMPLING = {
    "temperature": 0.7, "top_p": 0.9, "top_k": -1, "min_p": 0.1, "seed": 2**70,
    "xtc_probability": 0.5, "xtc_threshold": 0.1, "repetition_penalty": 1.1,
    "presence_penalty": 1, "frequency_penalty": -1, "stop": ["a", "\n"],
    "logit_bias": {"5": -100}, "max_tokens": 7, "n": 2, "ignore_eos": True}

REQUESTS = {
    "plain": {"messages": HELLO, "prompt": "hi", "stream": True,
              "stream_options": {"include_usage": True}},
    "sampling": {"messages": HELLO, "prompt": [72, 73], **SAMPLING},
    "nulls": {"messages": HELLO, "prompt": ["a", "b"], **dict.fromkeys(SAMPLING)},
    "turns": {"prompt": [[1], [2, 256]], "echo": True, "logprobs": 3,
              "best_of": 2, "suffix": "", "messages": [
        {"role": "developer", "content": "<|im_start|>"}, *HELLO,
        {"role": "assistant", "content": None, "reasoning_content": "r",
         "tool_calls": [{"id": "1", "type": "function", "function": {
             "name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "1",
         "content": [{"type": "text", "text": "ok"}]}]},
    "options": {"messages": HELLO, "prompt": "x", "tools": [TOOL],
                "tool_choice": "auto", "parallel_tool_calls": False,
                "reasoning_effort": "low", "reasoning_format": "none",
                "chat_template_kwargs": {"enable_thinking": False},
                "response_format": {"type": "text"}, "logprobs": True,
                "top_logprobs": 2, "logit_bias": [["a", 1], [5, False]]},
}
ANSWERS = {
    "chat": b"\1Good morning.",
    "scores": b"\3<think>hm</think>so\n\nno",
    "calls": b"\3ok <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>!",
    "bytes": b"\2hi \xf0\x9f\x99\x82 \xc0\x80 \xe4\xb8 st\xf8op stop",
    "text": b"\0line\r\nx\x00\xe2\x80\xa8\"\\",
}


def write(target, name, data):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


for name, request in REQUESTS.items():
    write("fuzz_request_json", name, json.dumps(request).encode())
for name, answer in ANSWERS.items():
    write("fuzz_sse_writer", name, answer)
