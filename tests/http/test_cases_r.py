"""Cases R: found by replay on the product that quern stands in for.
(tests/cases/INDEX.md; R-08 and R-11 are in test_cases_f.py, R-13 in
test_cases_g.py, R-16 in test_cases_i.py)"""


import harness

HELLO = [{"role": "user", "content": "hi @plain"}]


class CasesR(harness.ServerCase):
    SCRIPTS = {
        "@plain": ["Good", " morning", "."],
        "@two": ["<tool_call>\n{\"name\":\"a\",", "\"arguments\":{}}\n",
                 "</tool_call>\n<tool_call>\n",
                 "{\"name\":\"b\",\"arguments\":{}}\n", "</tool_call> "],
    }

    def chat_reply(self, **fields):
        return self.server.post("/v1/chat/completions",
                                {"messages": HELLO, **fields})

    def test_r01_top_k_of_the_vocabulary_and_beyond(self):
        width = self.model.width
        for top_k in (width - 1, width, width + 1, 2**31 - 1):
            with self.subTest(top_k=top_k):
                whole, _ = self.both_forms(self.chat, "hi @plain",
                                           temperature=1, top_k=top_k, seed=7)
                self.assertEqual(whole.finish, "stop")
        for top_k in (2**31, 2**63, 2**70):
            reply = self.chat_reply(temperature=1, top_k=top_k)
            self.refused(reply, param="top_k")
        self.check_serves()

    def test_r02_a_bias_of_no_token(self):
        for key in ("999999", str(self.model.width), "-1", str(2**40), "1.5",
                    "", "x"):
            with self.subTest(key):
                reply = self.chat_reply(logit_bias={key: 5})
                self.refused(reply, param="logit_bias")
        self.check_serves()

    def test_r04_prompts_in_lists(self):
        whole, _ = self.both_forms(self.completion, ["@plain", "b"],
                                   max_tokens=3)
        self.assertEqual([c["index"] for c in whole.choices], [0, 1])
        self.assertEqual([c["text"] for c in whole.choices],
                         ["Good morning.", ""])
        plain = self.token_ids("@plain")
        self.assertEqual(len(plain), 1)
        whole, _ = self.both_forms(self.completion, plain)
        self.assertEqual(whole.text, "Good morning.")
        whole, _ = self.both_forms(self.completion, [[72, 72], plain],
                                   echo=True)
        self.assertEqual(whole.choices[1]["text"], "@plainGood morning.")
        self.assertEqual(len(whole.choices), 2)

    def test_r04_lists_that_are_no_prompts(self):
        for prompt in ([], [[]], [1, "a"], ["a", 1], [[1], "a"], [-1],
                       [self.model.width], [2**40], [1.5], {"a": 1}, 5, True,
                       [["a"]], [[[1]]], [None]):
            with self.subTest(prompt=prompt):
                reply = self.server.post("/v1/completions",
                                         {"prompt": prompt})
                error = self.refused(reply)
                self.assertTrue(error["param"].startswith("prompt"), error)
        self.check_serves()

    def test_r07_numbers_that_are_no_json(self):
        for number in ("NaN", "Infinity", "-Infinity", "nan", "+1", "01"):
            with self.subTest(number):
                body = ('{"messages":[{"role":"user","content":"@plain"}],'
                        f'"temperature":{number}}}')
                self.refused(self.server.post("/v1/chat/completions", body))
        self.check_serves()

    def test_r17_several_choices(self):
        for fields in ({}, {"temperature": 1.2, "seed": 11}):
            whole, _ = self.both_forms(self.chat, "hi @plain", n=3, **fields)
            self.assertEqual([c["index"] for c in whole.choices], [0, 1, 2])
        self.assertEqual({c["message"]["content"] for c
                          in self.chat("@plain", n=2).choices},
                         {"Good morning."})

    def test_r17_choices_of_one_seed_differ(self):
        fields = dict(n=3, temperature=2, seed=3, max_tokens=12,
                      **self.endless)
        whole, _ = self.both_forms(self.completion, "q", **fields)
        self.assertEqual(len({c["text"] for c in whole.choices}), 3)
        again = self.completion("q", **fields)
        self.assertEqual(again.choices, whole.choices)

    def test_r17_best_of(self):
        whole = self.completion("@plain", best_of=3, n=2)
        self.assertEqual([c["text"] for c in whole.choices],
                         ["Good morning."] * 2)
        # A stream cannot take back what it sent; fewer than n is none.
        for fields in ({"best_of": 3, "stream": True},
                       {"best_of": 1, "n": 2}):
            reply = self.server.post("/v1/completions",
                                     {"prompt": "@plain", **fields})
            self.refused(reply, param="best_of")

    def test_r17_echo(self):
        whole, streamed = self.both_forms(self.completion, "@plain", echo=True)
        self.assertEqual(whole.text, "@plainGood morning.")
        self.assertEqual(whole.usage["prompt_tokens"], 1)
        self.assertEqual(whole.usage["completion_tokens"], 3)

    def test_r17_parallel_tool_calls(self):
        tools = [{"type": "function", "function": {"name": name}}
                 for name in ("a", "b")]
        whole, _ = self.both_forms(self.chat, "@two", tools=tools)
        self.assertEqual([name for name, _ in whole.calls], ["a", "b"])
        whole, _ = self.both_forms(self.chat, "@two", tools=tools,
                                   parallel_tool_calls=False)
        self.assertEqual([name for name, _ in whole.calls], ["a"])

    def test_r17_response_format(self):
        """Text is what there is; what is not enforced yet is refused."""
        whole, _ = self.both_forms(self.chat, "@plain",
                                   response_format={"type": "text"})
        self.assertEqual(whole.text, "Good morning.")
        for value in ({"type": "json_object"},
                      {"type": "json_schema", "json_schema": {
                          "name": "x", "schema": {"type": "string"}}},
                      {"type": "poem"}, {"a": 1}, "text"):
            with self.subTest(value):
                error = self.refused(self.chat_reply(response_format=value))
                self.assertTrue(error["param"].startswith("response_format"))

    def test_r19_seeds(self):
        fields = dict(temperature=2, max_tokens=12, **self.endless)
        texts = {self.completion("q", seed=-1, **fields).text
                 for _ in range(4)}
        self.assertGreater(len(texts), 1, "-1 is a fresh seed each time")
        for seed in (0, 1, -2, 2**31, 2**53 + 1, 2**63 - 1, -2**63, 2**64 - 1,
                     2**70, -2**70):
            with self.subTest(seed=seed):
                one, _ = self.both_forms(self.completion, "q", seed=seed,
                                         **fields)
                self.assertEqual(one.choices, self.completion(
                    "q", seed=seed, **fields).choices)
        self.check_serves()

    def test_r20_errors_are_objects(self):
        replies = {
            "no messages": self.server.post("/v1/chat/completions", {}),
            "no role": self.chat_reply(messages=[{"content": "x"}]),
            "no path": self.server.get("/v1/nothing"),
            "no body": self.server.post("/v1/completions", b""),
        }
        statuses = {name: reply.status for name, reply in replies.items()}
        self.assertEqual(statuses, {"no messages": 400, "no role": 400,
                                    "no path": 404, "no body": 400})
        for name, reply in replies.items():
            with self.subTest(name):
                error = self.refused(reply, status=reply.status)
                self.assertEqual(error["type"], "invalid_request_error")
        error = replies["no role"].json()["error"]
        self.assertIn("role", error["message"])
        self.assertTrue(error["param"].startswith("messages[0]"), error)

    def test_r20_any_model_name_is_the_one_model(self):
        for name in ("gpt-5", "", "org/name", None):
            whole, _ = self.both_forms(self.chat, "@plain", model=name)
            self.assertEqual(whole.text, "Good morning.")


class CasesRTemplate(harness.ServerCase):
    TEMPLATE = ("{%- for m in messages %}{{ m.content }}{% endfor -%}"
                "{%- if messages | length > 1 %}"
                "{{ raise_exception('one message only') }}{% endif -%}")

    def test_r20_e08_a_template_that_refuses(self):
        self.assertEqual(self.chat("@plain").text, "Good morning.")
        for stream in (False, True):
            reply = self.server.post("/v1/chat/completions", {
                "messages": HELLO + HELLO, "stream": stream})
            self.refused(reply, words=("one message only",))
        self.assertEqual(self.chat("@plain").text, "Good morning.")
