"""LangChain's ChatOpenAI."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

import harness
from scripts import SCRIPTS


@tool
def get_wx(city: str) -> str:
    """The weather of a city."""
    return f"12 degrees in {city}"


@tool
def get_time() -> str:
    """The time."""
    return "noon"


class LangChain(harness.ServerCase):
    SCRIPTS = SCRIPTS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chat_model = ChatOpenAI(
            base_url=cls.server.url("/v1"), api_key="none", model="any",
            temperature=0, stream_usage=True, max_retries=0)
        cls.with_tools = cls.chat_model.bind_tools([get_wx, get_time])

    def test_invoke(self):
        reply = self.chat_model.invoke("@plain")
        self.assertEqual(reply.content, "Good morning.")
        self.assertEqual(reply.usage_metadata["output_tokens"], 3)
        self.assertEqual(reply.response_metadata["finish_reason"], "stop")

    def test_stream(self):
        chunks = list(self.chat_model.stream("@emoji"))
        whole = sum(chunks[1:], chunks[0])
        self.assertEqual(whole.content, "hi \U0001F642 bye")
        self.assertEqual(whole.usage_metadata["output_tokens"], 6)
        self.assertEqual(whole.response_metadata["finish_reason"], "stop")

    def test_tools(self):
        calls = [("get_wx", {"city": "Oslo"}), ("get_time", {})]
        reply = self.with_tools.invoke("@two")
        self.assertEqual([(c["name"], c["args"]) for c in reply.tool_calls],
                         calls)
        self.assertEqual(reply.invalid_tool_calls, [])
        chunks = list(self.with_tools.stream("@two"))
        whole = sum(chunks[1:], chunks[0])
        self.assertEqual([(c["name"], c["args"]) for c in whole.tool_calls],
                         calls)

    def test_strict_tools_and_their_results(self):
        model = self.chat_model.bind_tools([get_wx], strict=True)
        first = model.invoke("@tool")
        call = first.tool_calls[0]
        self.assertEqual(call["args"], {"city": "Paris"})
        reply = model.invoke([HumanMessage("@plain"), first,
                              ToolMessage(get_wx.invoke(call["args"]),
                                          tool_call_id=call["id"])])
        self.assertEqual(reply.content, "Still here?")

    def test_logprobs(self):
        reply = self.chat_model.bind(logprobs=True,
                                     top_logprobs=2).invoke("@plain")
        content = reply.response_metadata["logprobs"]["content"]
        self.assertEqual([e["token"] for e in content],
                         ["Good", " morning", "."])

    def test_batch(self):
        replies = self.chat_model.batch(["@plain", "@emoji"] * 4)
        self.assertEqual([r.content for r in replies],
                         ["Good morning.", "hi \U0001F642 bye"] * 4)

    def test_a_conversation(self):
        reply = self.chat_model.invoke([
            ("system", "Be kind."), HumanMessage("hello"),
            AIMessage("hi"), HumanMessage([
                {"type": "text", "text": "again "},
                {"type": "text", "text": "@plain"}])])
        self.assertEqual(reply.content, "Still here?")
