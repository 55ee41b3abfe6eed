"""Cases F: tool calls over the chat endpoint. (tests/cases/INDEX.md)"""

import json

import harness

WEATHER = {"type": "function", "function": {
    "name": "get_wx", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"]}}}


def tool(name):
    return {"type": "function", "function": {
        "name": name, "parameters": {"type": "object", "properties": {}}}}


class CasesF(harness.ServerCase):
    SCRIPTS = {
        "@tool": ["ok ", "<tool_call>", "\n{\"name\": \"get_wx\", \"arg",
                  "uments\": {\"city\": \"Par", "is\"}}\n", "</tool_call>"],
        "@two": ["<tool_call>\n{", "\"name\":\"a\",\"arguments\":{}}\n",
                 "</tool_call>\n<tool_call>\n",
                 "{\"name\":\"b\",\"arguments\":{\"x\":1}}",
                 "\n</tool_call>\n"],
        "@cjk": ["<tool", "_call>\n{\"na", "me\": \"f\", ",
                 "\"arguments\": {\"g\": \"\u8bf4", 0xE6, 0x98, 0x8E,
                 "\u5728\", \"n\": {\"a\": [1", ", 2", "]}", "}}\n</too",
                 "l_call>"],
        "@see": ["Let me see. ", "<think>", "hm", "</think>", "Now: ",
                 "<tool_call>{\"name\":\"a\",\"arguments\":{\"p\":",
                 "\"q\"}}</tool_call>",
                 "<tool_call>{\"name\": \"b\",\"arguments\":{}}</tool_call>"],
        "@prose": ["Use {\"name\": \"Bingo\", ", "\"age\": 30} or the ",
                   "`<tool_call", ">` tag."],
        "@bingo": ["<tool_call>{\"name\": \"Bingo\", ",
                   "\"arguments\": {}}", "</tool_call>\n"],
        "@trunc": ["go ", "<tool_call>\n ",
                   "{\"name\": \"get_wx\", \"arguments\": {\"ci"],
        "@city": ["<tool_call> {\"name\": \"get_wx\", ",
                  "\"arguments\": {city: 1}}", "</tool_call>\t"],
        "@string": ["<tool_call>\t{\"name\": \"get_wx\", ",
                    "\"arguments\": \"{\\\"city\\\": ",
                    "\\\"Oslo\\\"}\"}", "\t</tool_call>"],
    }

    def check_calls(self, script, tools, text, calls, **fields):
        whole, streamed = self.both_forms(self.chat, script, tools=tools,
                                          **fields)
        self.assertEqual(whole.text, text)
        self.assertEqual([(name, json.loads(arguments))
                          for name, arguments in whole.calls], calls)
        self.assertEqual(whole.finish, "tool_calls" if calls else "stop")
        return whole, streamed

    def test_f13_f17_f19_a_call(self):
        self.check_calls("@tool", [WEATHER], "ok ",
                         [("get_wx", {"city": "Paris"})])

    def test_f14_cut_by_length(self):
        for tokens in range(1, 5):
            with self.subTest(tokens=tokens):
                whole, _ = self.both_forms(self.chat, "@tool", tools=[WEATHER],
                                           max_tokens=tokens)
                self.assertEqual(whole.finish, "length")
                self.assertEqual(whole.calls, [])
                self.assertEqual(whole.text, "".join(
                    self.SCRIPTS["@tool"][:tokens]))
                self.assertEqual(whole.usage["completion_tokens"], tokens)

    def test_f14_cut_behind_the_arguments(self):
        """Only the closing tag is missing: the call is whole."""
        whole, _ = self.both_forms(self.chat, "@tool", tools=[WEATHER],
                                   max_tokens=5)
        self.assertEqual(whole.finish, "length")
        self.assertEqual([name for name, _ in whole.calls], ["get_wx"])

    def test_f20_nested_arguments_in_many_tokens(self):
        self.check_calls("@cjk", [tool("f")], "",
                         [("f", {"g": "\u8bf4\u660e\u5728",
                                 "n": {"a": [1, 2]}})])

    def test_f22_text_reasoning_and_two_calls(self):
        whole, _ = self.check_calls(
            "@see", [tool("a"), tool("b")], "Let me see. Now: ",
            [("a", {"p": "q"}), ("b", {})])
        self.assertEqual(whole.message["reasoning_content"], "hm")

    def test_two_calls_without_text(self):
        self.check_calls("@two", [tool("a"), tool("b")], "",
                         [("a", {}), ("b", {"x": 1})])

    def test_f10_names_that_are_no_tools(self):
        self.check_calls("@prose", [WEATHER],
                         "".join(self.SCRIPTS["@prose"]), [])
        self.check_calls("@bingo", [WEATHER],
                         "".join(self.SCRIPTS["@bingo"]), [])

    def test_no_tools_no_calls(self):
        text = "".join(self.SCRIPTS["@tool"])
        for fields in ({}, {"tools": []}, {"tools": None}):
            with self.subTest(fields):
                whole, _ = self.both_forms(self.chat, "@tool", **fields)
                self.assertEqual((whole.text, whole.calls), (text, []))

    def test_tool_choice_none_is_no_call(self):
        self.check_calls("@tool", [WEATHER], "".join(self.SCRIPTS["@tool"]),
                         [], tool_choice="none")

    def test_r08_a_call_that_is_not_complete_is_text(self):
        for script in ("@trunc", "@city"):
            self.check_calls(script, [WEATHER],
                             "".join(self.SCRIPTS[script]), [])

    def test_r11_arguments_as_a_string(self):
        self.check_calls("@string", [WEATHER], "",
                         [("get_wx", {"city": "Oslo"})])

    def test_a_round_trip(self):
        """What the server said goes back to it, with the tool's result."""
        first = self.server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "@tool"}],
            "tools": [WEATHER]}).json()["choices"][0]["message"]
        call = first["tool_calls"][0]
        for content in ("12 degrees", [{"type": "text", "text": "12"}]):
            answer = self.chat(
                [{"role": "user", "content": "weather?"}, first,
                 {"role": "tool", "tool_call_id": call["id"],
                  "content": content},
                 {"role": "user", "content": "@prose"}], tools=[WEATHER])
            self.assertEqual(answer.finish, "stop")
