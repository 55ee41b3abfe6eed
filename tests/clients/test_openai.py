"""The openai package for Python."""

import contextlib
import threading

import httpx
import openai

import harness
from scripts import SCRIPTS, TOOLS


def user(text):
    return [{"role": "user", "content": text}]


class OpenAI(harness.ServerCase):
    SCRIPTS = SCRIPTS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = cls.enterClassContext(openai.OpenAI(
            base_url=cls.server.url("/v1"), api_key="none", max_retries=0))

    def create(self, text, **fields):
        return self.client.chat.completions.create(
            model="any", messages=user(text), **fields)

    def test_chat(self):
        reply = self.create("@plain")
        self.assertEqual(reply.choices[0].message.content, "Good morning.")
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertEqual(reply.usage.completion_tokens, 3)
        self.assertEqual(reply.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(
            reply.usage.completion_tokens_details.reasoning_tokens, 0)

    def test_chat_stream(self):
        with self.create("@emoji", stream=True, stream_options={
                "include_usage": True}) as stream:
            chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or ""
                                 for c in chunks if c.choices),
                         "hi \U0001F642 bye")
        self.assertEqual(chunks[-1].usage.completion_tokens, 6)

    def test_a_second_turn(self):
        first = self.create("@plain").choices[0].message
        reply = self.client.chat.completions.create(
            model="any", messages=[*user("hello"), first, *user("@plain")])
        self.assertEqual(reply.choices[0].message.content, "Still here?")

    def test_the_stream_helper_accumulates(self):
        with self.client.chat.completions.stream(
                model="any", messages=user("@plain"), logprobs=True,
                top_logprobs=2,
                stream_options={"include_usage": True}) as stream:
            events = list(stream)
            final = stream.get_final_completion()
        message = final.choices[0].message
        self.assertEqual((message.role, message.content),
                         ("assistant", "Good morning."))
        self.assertEqual([e.delta for e in events
                          if e.type == "content.delta" and e.delta],
                         ["Good", " morning", "."])
        self.assertEqual([t.token for t in final.choices[0].logprobs.content],
                         ["Good", " morning", "."])
        self.assertEqual(final.usage.completion_tokens, 3)

    def test_the_stream_helper_accumulates_calls(self):
        with self.client.chat.completions.stream(
                model="any", messages=user("@two"), tools=TOOLS) as stream:
            done = [e for e in stream
                    if e.type == "tool_calls.function.arguments.done"]
            message = stream.get_final_completion().choices[0].message
        self.assertEqual([(e.name, e.arguments) for e in done],
                         [("get_wx", '{"city": "Oslo"}'), ("get_time", "{}")])
        self.assertEqual([c.function.name for c in message.tool_calls],
                         ["get_wx", "get_time"])
        self.assertEqual(len({c.id for c in message.tool_calls}), 2)

    def test_a_tool_and_its_result(self):
        reply = self.create("@tool", tools=TOOLS, tool_choice="auto",
                            parallel_tool_calls=True)
        choice = reply.choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        call = choice.message.tool_calls[0]
        self.assertEqual((call.type, call.function.name,
                          call.function.arguments),
                         ("function", "get_wx", '{"city": "Paris"}'))
        reply = self.client.chat.completions.create(
            model="any", tools=TOOLS, messages=[
                *user("@plain"), choice.message,
                {"role": "tool", "tool_call_id": call.id, "content": "12 C"}])
        self.assertEqual(reply.choices[0].message.content, "Still here?")

    def test_reasoning_is_beside_the_content(self):
        message = self.create("@think").choices[0].message
        self.assertEqual((message.content, message.reasoning_content),
                         ("answer", "reasoning"))

    def test_logprobs(self):
        choice = self.create("@plain", logprobs=True, top_logprobs=3).choices[0]
        for entry in choice.logprobs.content:
            self.assertEqual(bytes(entry.bytes).decode(), entry.token)
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertEqual(entry.top_logprobs[0].logprob, entry.logprob)

    def test_legacy_completions(self):
        reply = self.client.completions.create(
            model="any", prompt=["@plain", "@emoji"], logprobs=2, echo=True,
            max_tokens=20)
        self.assertEqual([c.text for c in reply.choices],
                         ["@plainGood morning.", "@emojihi \U0001F642 bye"])
        logprobs = reply.choices[0].logprobs
        self.assertEqual(logprobs.tokens,
                         ["@plain", "Good", " morning", "."])
        self.assertIsNone(logprobs.token_logprobs[0])
        with self.client.completions.create(model="any", prompt="@plain",
                                            stream=True) as stream:
            text = "".join(chunk.choices[0].text for chunk in stream)
        self.assertEqual(text, "Good morning.")

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual(len(models), 1)
        self.assertEqual(self.client.models.retrieve(models[0].id), models[0])
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other/model")

    def test_errors_have_their_class_and_fields(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create("@plain", temperature=99)
        self.assertEqual((caught.exception.param, caught.exception.type),
                         ("temperature", "invalid_request_error"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create("z" * 5000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertIn("maximum context length is", str(caught.exception))

    def test_raw_responses(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model="any", messages=user("@plain"),
            extra_headers={"x-request-id": "mine-1"})
        self.assertEqual(raw.headers["x-request-id"], "mine-1")
        parsed = raw.parse()
        self.assertEqual(parsed.choices[0].message.content, "Good morning.")
        self.assertEqual(parsed._request_id, "mine-1")

    def test_parse_without_a_format(self):
        reply = self.client.chat.completions.parse(
            model="any", messages=user("@plain"))
        self.assertEqual(reply.choices[0].message.content, "Good morning.")
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(
                model="any", messages=user("@plain"), max_tokens=1)


class Keys(harness.ServerCase):
    ARGUMENTS = ("--api-key", "right")

    def test_keys(self):
        for key, opens in (("right", True), ("wrong", False)):
            with openai.OpenAI(base_url=self.server.url("/v1"), api_key=key,
                               max_retries=0) as client:
                if opens:
                    self.assertTrue(client.models.list().data)
                else:
                    with self.assertRaises(openai.AuthenticationError):
                        client.models.list()


class Busy(harness.ServerCase):
    POSITIONS = 65536
    ARGUMENTS = ("--batch", "1", "--queue", "1")

    def test_the_client_comes_again_after_429(self):
        """One request runs, one waits; they leave after the first 429."""
        statuses, refused = [], threading.Event()

        def note(response):
            statuses.append(response.status_code)
            if response.status_code == 429:
                refused.set()

        endless = {"prompt": "go", "max_tokens": 60000, "stream": True,
                   **self.endless}
        taken = [self.server.open("POST", "/v1/completions", endless)[0]
                 for _ in range(2)]

        def leave():
            refused.wait(harness.PATIENCE_S)
            for connection in taken:
                connection.close()

        leaving = threading.Thread(target=leave)
        leaving.start()
        with contextlib.closing(httpx.Client(event_hooks={
                "response": [note]})) as transport:
            client = openai.OpenAI(base_url=self.server.url("/v1"),
                                   api_key="none", http_client=transport,
                                   max_retries=20)
            reply = client.completions.create(model="any", prompt="@plain")
        leaving.join()
        self.assertEqual(reply.choices[0].text, "Good morning.")
        self.assertEqual((statuses[0], statuses[-1]), (429, 200))
