#include "api/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat_input.h"
#include "api/served.h"

namespace quern::test {
namespace {

using testing::HasSubstr;

const auto kServed = served_without_engine();

ChatRequest read(const std::string& body) {
  return read_chat(parse_body(body), *kServed);
}

ChatInput input_of(const std::string& body) {
  const Json json = parse_body(body);
  const Fields fields(json);
  return read_chat_input(fields, read_tools(fields), *kServed);
}

std::string prompt_text(const ChatRequest& request) {
  return kServed->tokenizer.decode(request.prompt, false);
}

// A body with one message from the user and these fields.
std::string hello(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

Json messages_of(const std::string& messages) {
  return input_of(R"({"messages": )" + messages + "}").messages;
}

TEST(ChatMessages, AsTemplatesTakeThem) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"role": "developer", "content": "d"}])",
       R"([{"role": "system", "content": "d"}])"},
      {R"([{"role": "user", "content": null}])",
       R"([{"role": "user", "content": ""}])"},
      {R"([{"role": "user", "content": [{"type": "text", "text": "a"},
                                        {"type": "text", "text": "b"}]}])",
       R"([{"role": "user", "content": "ab"}])"},
      {R"([{"role": "tool", "tool_call_id": "1",
            "content": [{"type": "text", "text": "12"}]}])",
       R"([{"role": "tool", "tool_call_id": "1", "content": "12"}])"},
      {R"([{"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function",
             "function": {"name": "f", "arguments": "{\"a\": 1}"}},
            {"id": "2", "function": {"name": "g"}}]}])",
       R"([{"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function",
             "function": {"name": "f", "arguments": "{\"a\": 1}"}},
            {"id": "2", "function": {"name": "g", "arguments": "{}"},
             "type": "function"}]}])"},
      {R"([{"role": "assistant", "content": "a", "tool_calls": null}])",
       R"([{"role": "assistant", "content": "a"}])"},
  };
  for (const auto& [given, expected] : cases) {
    EXPECT_EQ(messages_of(given), Json::parse(expected)) << given;
  }
}

struct Fault {
  std::string body;
  const char *param, *words;
};

TEST(ChatMessages, FaultsNameTheirPlace) {
  const auto messages = [](const std::string& list) {
    return R"({"messages": )" + list + "}";
  };
  const Fault faults[] = {
      {"{}", "messages", "messages required"},
      {messages("[]"), "messages", "messages required"},
      {messages("{}"), "messages", "list"},
      {messages("[5]"), "messages[0]", "object"},
      {messages(R"([{"content": "x"}])"), "messages[0].role", "required"},
      {messages(R"([{"role": 5}])"), "messages[0].role", "string"},
      {messages(R"([{"role": "poet"}])"), "messages[0].role", "'poet'"},
      {messages(R"([{"role": "user", "content": 5}])"), "messages[0].content",
       "string or list"},
      {messages(R"([{"role": "user", "content": ["a"]}])"),
       "messages[0].content[0]", "object"},
      {messages(R"([{"role": "user", "content": [{"type": "text"}]}])"),
       "messages[0].content[0].text", "required"},
      {messages(R"([{"role": "user", "content": [
                    {"type": "image_url", "image_url": {"url": "x"}}]}])"),
       "messages[0].content[0]", "'image_url'"},
      {messages(R"([{"role": "user", "content": [
                    {"type": "input_audio", "input_audio": {}}]}])"),
       "messages[0].content[0]", "'input_audio'"},
      {messages(R"([{"role": "assistant", "tool_calls": [{"id": "1"}]}])"),
       "messages[0].tool_calls[0].function", "required"},
      {messages(R"([{"role": "assistant", "tool_calls": [
                    {"function": {"name": "f", "arguments": 5}}]}])"),
       "messages[0].tool_calls[0].function.arguments", "string"},
      {hello(R"("tools": {})"), "tools", "list"},
      {hello(R"("tools": [5])"), "tools[0]", "object"},
      {hello(R"("tools": [{"type": "custom"}])"), "tools[0].type", "'custom'"},
      {hello(R"("tools": [{"type": "function", "function": {}}])"),
       "tools[0].function.name", "required"},
      {hello(R"("tool_choice": "required")"), "tool_choice", "not supported"},
      {hello(R"("tool_choice": {"type": "function",
                                "function": {"name": "f"}})"),
       "tool_choice", "not supported"},
      {hello(R"("chat_template_kwargs": [])"), "chat_template_kwargs",
       "object"},
      {hello(R"("chat_template_kwargs": {"enable_thinking": "no"})"),
       "chat_template_kwargs.enable_thinking", "bool"},
      {hello(R"("reasoning_effort": "huge")"), "reasoning_effort", "'huge'"},
      {hello(R"("reasoning_format": "deep")"), "reasoning_format", "'deep'"},
      {hello(R"("logprobs": 2)"), "logprobs", "bool"},
      {hello(R"("top_logprobs": 21)"), "top_logprobs", "at most 20"},
      {hello(R"("top_logprobs": -2)"), "top_logprobs", "at least -1"},
  };
  for (const Fault& fault : faults) {
    try {
      read(fault.body);
      ADD_FAILURE() << "taken: " << fault.body;
    } catch (const ApiError& e) {
      EXPECT_EQ(e.kind().param, fault.param) << fault.body;
      EXPECT_THAT(e.what(), HasSubstr(fault.words)) << fault.body;
      EXPECT_EQ(e.kind().status, 400);
    }
  }
}

// Arguments come as the text of JSON; what is nested in it is bounded too.
TEST(ChatMessages, ArgumentsNestedTooDeepAreText) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({\"a\":)";
  const ChatRequest request = read(
      R"({"messages": [{"role": "assistant", "tool_calls": [{"function":
          {"name": "f", "arguments": ")" +
      deep + R"("}}]}]})");
  EXPECT_EQ(prompt_text(request), "assistant: \nassistant: ");
}

TEST(ChatPrompt, IsTheTemplates) {
  EXPECT_EQ(prompt_text(read(hello(""))), "user: hi\nassistant: ");
  EXPECT_EQ(prompt_text(read(hello(R"("tools": [{"type": "function",
                                       "function": {"name": "f"}}])"))),
            R"({"type": "function", "function": {"name": "f"}})"
            "\nuser: hi\nassistant: ");
}

TEST(ChatPrompt, FaultsOfTemplatesAreTheRequests) {
  const auto check = [](const ServedModel& served, const char* words) {
    try {
      read_chat(parse_body(hello("")), served);
      ADD_FAILURE() << "taken";
    } catch (const ApiError& e) {
      EXPECT_EQ(e.kind().param, "messages");
      EXPECT_THAT(e.what(), HasSubstr(words));
    }
  };
  check(*served_with_template(""), "--chat-template");
  check(*served_with_template("{{ raise_exception('one turn only') }}"),
        "one turn only");
}

TEST(ChatTools, SchemasWithoutTypeGetOne) {
  const std::string tools = R"([{"type": "function", "function": {"name": "f",
      "parameters": {"properties": {
          "a": {"type": "string"}, "b": {"enum": [1, 2]},
          "c": {"items": {"properties": {}}}, "d": {},
          "e": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
          "f": {"const": true}, "g": true}}}}])";
  const std::string body = hello(R"("tools": )" + tools);
  const Json parameters = input_of(body).tools[0]["function"]["parameters"];
  EXPECT_EQ(parameters["type"], "object");
  const Json& properties = parameters["properties"];
  EXPECT_EQ(properties["a"]["type"], "string");
  EXPECT_EQ(properties["b"]["type"], "integer");
  EXPECT_EQ(properties["c"]["type"], "array");
  EXPECT_EQ(properties["c"]["items"]["type"], "object");
  EXPECT_EQ(properties["d"]["type"], "string");
  EXPECT_EQ(properties["e"]["type"], "integer");
  EXPECT_EQ(properties["f"]["type"], "boolean");
  EXPECT_EQ(properties["g"], true);
  // Arguments are read by what the client wrote.
  EXPECT_EQ(*read(body).tools, Json::parse(tools));
}

TEST(ChatTools, NoneOfThem) {
  const std::string tool =
      R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  EXPECT_TRUE(read(hello(tool)).tools);
  EXPECT_TRUE(read(hello(tool + R"(, "tool_choice": "auto")")).tools);
  for (const std::string& fields :
       {tool + R"(, "tool_choice": "none")", std::string(R"("tools": [])"),
        std::string(R"("tools": null)")}) {
    const ChatRequest request = read(hello(fields));
    EXPECT_FALSE(request.tools);
    EXPECT_EQ(prompt_text(request), "user: hi\nassistant: ");
  }
  EXPECT_TRUE(read(hello(R"("parallel_tool_calls": false)")).one_call);
  EXPECT_FALSE(read(hello(R"("parallel_tool_calls": true)")).one_call);
}

// chat_template_kwargs > reasoning_effort > the server's flag > the template
TEST(ChatThinking, Precedence) {
  auto served = served_without_engine();
  const auto thinking = [&](const std::string& fields) {
    const Json json = parse_body(hello(fields));
    return read_chat_input(Fields(json), nullptr, *served).variables;
  };
  EXPECT_EQ(thinking(""), Json::object());
  served->defaults.thinking = true;
  EXPECT_EQ(thinking(""), Json({{"enable_thinking", true}}));
  EXPECT_EQ(thinking(R"("reasoning_effort": "none")"),
            Json({{"enable_thinking", false}}));
  EXPECT_EQ(thinking(R"("reasoning_effort": "low")"),
            Json({{"enable_thinking", true}, {"reasoning_effort", "low"}}));
  EXPECT_EQ(thinking(R"("reasoning_effort": "high",
                        "chat_template_kwargs": {"enable_thinking": false})"),
            Json({{"enable_thinking", false}, {"reasoning_effort", "high"}}));
  EXPECT_EQ(thinking(R"("reasoning_effort": null, "enable_thinking": false,
                        "chat_template_kwargs": {"x": 1})"),
            Json({{"x", 1}, {"enable_thinking", false}}));
}

// G-01, G-04
TEST(ChatThinking, ThePromptMayOpenIt) {
  EXPECT_FALSE(read(hello("")).inside_reasoning);
  EXPECT_TRUE(read(hello(R"("reasoning_effort": "low")")).inside_reasoning);
  EXPECT_FALSE(read(hello(R"("reasoning_effort": "none")")).inside_reasoning);
}

TEST(ChatLogprobs, TwoFields) {
  const auto logprobs = [](const std::string& fields) {
    return read(hello(fields)).generation.sampling.logprobs;
  };
  EXPECT_EQ(logprobs(""), -1);
  EXPECT_EQ(logprobs(R"("logprobs": false, "top_logprobs": null)"), -1);
  EXPECT_EQ(logprobs(R"("logprobs": true)"), 0);
  EXPECT_EQ(logprobs(R"("logprobs": true, "top_logprobs": 20)"), 20);
  EXPECT_EQ(logprobs(R"("logprobs": true, "top_logprobs": -1)"), 0);
  EXPECT_EQ(logprobs(R"("top_logprobs": 3)"), 3);
}

TEST(ChatReasoningFormat, NoneLeavesItInTheContent) {
  EXPECT_FALSE(read(hello("")).raw);
  EXPECT_FALSE(read(hello(R"("reasoning_format": "auto")")).raw);
  EXPECT_TRUE(read(hello(R"("reasoning_format": "none")")).raw);
}

}  // namespace
}  // namespace quern::test
