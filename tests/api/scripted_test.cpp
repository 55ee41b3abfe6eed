// From the bytes of a request to those of its answer, with the scripted model:
// each answer streamed and whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "api/chat_writer.h"
#include "api/completion_writer.h"
#include "api/endpoints.h"
#include "models/registry.h"

namespace quern::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kContext = 256;

std::shared_ptr<ServedModel> load_scripted(EngineOptions options) {
  const Path path = QUERN_SCRIPTED_MODEL;
  auto tokenizer = Tokenizer::from_directory(path).or_throw();
  auto templates = ChatTemplates::from_directory(path).or_throw();
  auto format = ReplyFormat::of(tokenizer, templates);
  std::shared_ptr<ServedModel> served(
      new ServedModel{.id = "org/scripted",
                      .created = 7,
                      .model = load_model(path).or_throw(),
                      .tokenizer = std::move(tokenizer),
                      .templates = std::move(templates),
                      .format = std::move(format),
                      .kv_layers = {"append/f16"}});
  options.context = kContext;
  served->engine = std::make_unique<Engine>(*served->model, options);
  return served;
}

// Reads an answer to its end.
std::string read_all(Exchange& exchange) {
  struct Bell {
    std::mutex mutex;
    std::condition_variable condition;
    bool rung = false;
  };
  const auto bell = std::make_shared<Bell>();
  exchange.on_ready([bell] {
    const std::lock_guard lock(bell->mutex);
    bell->rung = true;
    bell->condition.notify_one();
  });
  std::string bytes;
  while (true) {
    auto part = exchange.take();
    bytes += part.bytes;
    if (part.last) return bytes;
    std::unique_lock lock(bell->mutex);
    if (!bell->condition.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return bell->rung; })) {
      ADD_FAILURE() << "no end of the answer";
      return bytes;
    }
    bell->rung = false;
  }
}

// The JSON of the events; the last is [DONE].
std::vector<Json> events_of(std::string_view bytes) {
  std::vector<Json> events;
  bool done = false;
  while (!bytes.empty()) {
    const size_t end = bytes.find("\n\n");
    std::string_view line = bytes.substr(0, end);
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    EXPECT_FALSE(done);
    line.remove_prefix(6);
    if (line == "[DONE]") {
      done = true;
    } else {
      events.push_back(Json::parse(line));
    }
    bytes.remove_prefix(end + 2);
  }
  EXPECT_TRUE(done);
  return events;
}

// Without what two answers to the same request may differ in.
Json without_ids(Json answer) {
  answer.erase("id");
  answer.erase("created");
  for (Json& choice : answer["choices"]) {
    if (!choice.contains("message")) continue;
    for (Json& call : choice["message"].value("tool_calls", Json::array())) {
      EXPECT_THAT(call["id"].get<std::string>(), HasSubstr("call_"));
    }
    if (choice["message"].contains("tool_calls")) {
      for (Json& call : choice["message"]["tool_calls"]) call.erase("id");
    }
  }
  return answer;
}

class Scripted : public testing::Test {
 protected:
  static void SetUpTestSuite() { service_.serve(load_scripted({})); }
  static void TearDownTestSuite() { service_.serve(nullptr); }

  static ApiOutcome post(ApiOutcome (*endpoint)(Service&, const ApiRequest&),
                         const Json& body) {
    return endpoint(service_, {.method = "POST", .body = body.dump()});
  }

  static Json reply(const ApiOutcome& outcome, int status = 200) {
    const auto* reply = std::get_if<ApiReply>(&outcome);
    if (!reply) {
      ADD_FAILURE() << "no reply at once";
      return {};
    }
    EXPECT_EQ(reply->status, status) << reply->body;
    return Json::parse(reply->body);
  }

  // The answer in one piece; that of the same request streamed is equal.
  template <class F>
  static Json answer(ApiOutcome (*endpoint)(Service&, const ApiRequest&),
                     Json body, F fold) {
    auto whole = take_exchange(post(endpoint, body));
    if (!whole) return {};
    EXPECT_FALSE(whole->streamed());
    const Json json = Json::parse(read_all(*whole));
    EXPECT_EQ(whole->status(), 200);

    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    auto stream = take_exchange(post(endpoint, body));
    if (!stream) return {};
    EXPECT_TRUE(stream->streamed());
    for (const Json& event : events_of(read_all(*stream))) fold.add(event);
    EXPECT_EQ(without_ids(fold.whole()), without_ids(json));
    return json;
  }

  static Json chat(const std::string& text, Json fields = Json::object()) {
    fields["messages"] =
        Json::array({Json{{"role", "user"}, {"content", text}}});
    return answer(chat_completions, std::move(fields), ChatFold());
  }

  static Json complete(const Json& prompt, Json fields = Json::object()) {
    fields["prompt"] = prompt;
    const int n = fields.value("n", 1);
    return answer(completions, std::move(fields), CompletionFold(n, n));
  }

  // A bias that leaves only tokens with text.
  static Json no_specials() {
    const auto served = service_.model();
    Json bias = Json::object();
    for (int id = 0; id < served->model->facts().vocabulary; ++id) {
      if (served->tokenizer.is_special(id) ||
          served->tokenizer.token_bytes(id).empty()) {
        bias[std::to_string(id)] = -100;
      }
    }
    return bias;
  }

  static std::unique_ptr<Exchange> take_exchange(ApiOutcome outcome) {
    if (auto* reply = std::get_if<ApiReply>(&outcome)) {
      ADD_FAILURE() << reply->body;
      return nullptr;
    }
    return std::move(std::get<std::unique_ptr<Exchange>>(outcome));
  }

  static Service service_;
};

Service Scripted::service_;

Json content_of(const Json& answer) {
  return answer["choices"][0]["message"]["content"];
}

TEST_F(Scripted, AChat) {
  const Json json = chat("Say @plain");
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "org/scripted");
  EXPECT_EQ(content_of(json), "Good morning.");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"]["completion_tokens"], 3);
  EXPECT_EQ(chat("Say @plain", {{"model", "gpt"}})["model"], "gpt");
}

TEST_F(Scripted, ACompletion) {
  const Json json = complete("@plain");
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["choices"][0]["text"], "Good morning.");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 1);
  EXPECT_EQ(json["usage"]["completion_tokens"], 3);
}

struct StopCase {
  const char *id, *prompt, *stop, *text;
  bool found;
};

TEST_F(Scripted, StopStrings) {
  const StopCase cases[] = {
      {"B-01", "@stop", "\nUser:", "Alpha", true},
      {"B-04", "@alice", "Alice:", " Alice!x", false},
      {"B-05", "@nl", "\n", "What?", true},
      {"B-07", "@nl", "?\n", "What", true},
  };
  for (const StopCase& c : cases) {
    SCOPED_TRACE(c.id);
    const Json fields = {{"stop", {c.stop, "zzz"}}};
    const Json in_chat = chat(c.prompt, fields)["choices"][0];
    const Json in_text = complete(c.prompt, fields)["choices"][0];
    EXPECT_EQ(in_chat["message"]["content"], c.text);
    EXPECT_EQ(in_text["text"], c.text);
    for (const Json& choice : {in_chat, in_text}) {
      EXPECT_EQ(choice["finish_reason"], "stop");
      EXPECT_EQ(choice.value("stop_reason", Json()),
                c.found ? Json(c.stop) : Json());
    }
  }
}

// C-01, C-02, C-07
TEST_F(Scripted, SplitCharacters) {
  const std::pair<const char*, const char*> cases[] = {
      {"@emoji", "hi \U0001F642 bye"},
      {"@cut", "cut \uFFFD space"},
      {"@end", "last \uFFFD"},
      {"@bad", "bad \uFFFD byte"}};
  for (const auto& [prompt, text] : cases) {
    EXPECT_EQ(content_of(chat(prompt)), text);
    EXPECT_EQ(complete(prompt)["choices"][0]["text"], text);
  }
}

Json tools(std::vector<std::string> names) {
  Json list = Json::array();
  for (const std::string& name : names) {
    list.push_back({{"type", "function"}, {"function", {{"name", name}}}});
  }
  return list;
}

// F-13, F-17, F-19
TEST_F(Scripted, ToolCalls) {
  const Json choice =
      chat("@tool", {{"tools", tools({"get_wx"})}})["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "ok ");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1);
  const Json function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "get_wx");
  EXPECT_EQ(Json::parse(function["arguments"].get<std::string>()),
            Json({{"city", "Paris"}}));

  Json fields = {{"tools", tools({"a", "b"})}};
  const Json two = chat("@two", fields)["choices"][0]["message"];
  EXPECT_EQ(two["content"], nullptr);
  EXPECT_EQ(two["tool_calls"].size(), 2);
  fields["parallel_tool_calls"] = false;
  EXPECT_EQ(chat("@two", fields)["choices"][0]["message"]["tool_calls"].size(),
            1);
}

// R-08, F-14
TEST_F(Scripted, CallsThatAreNotCompleteAreText) {
  const Json fields = {{"tools", tools({"get_wx"})}};
  const Json choice = chat("@trunc", fields)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["message"]["content"],
            "go <tool_call>\n {\"name\": \"get_wx\", \"arguments\": {\"ci");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  Json cut = fields;
  cut["max_tokens"] = 2;
  EXPECT_EQ(chat("@tool", cut)["choices"][0]["finish_reason"], "length");
}

TEST_F(Scripted, Reasoning) {
  const Json json = chat("@think");
  const Json message = json["choices"][0]["message"];
  EXPECT_EQ(message["content"], "answer");
  EXPECT_EQ(message["reasoning_content"], "reasoning");
  EXPECT_EQ(message["reasoning"], "reasoning");
  EXPECT_EQ(json["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
  EXPECT_EQ(content_of(chat("@think", {{"reasoning_format", "none"}})),
            "<think>reasoning</think>answer");
}

TEST_F(Scripted, Logprobs) {
  const Json content = chat(
      "@plain", {{"logprobs", true},
                 {"top_logprobs", 2}})["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3);
  EXPECT_EQ(content[1]["token"], " morning");
  EXPECT_EQ(content[1]["bytes"].size(), 8);
  EXPECT_EQ(content[1]["top_logprobs"].size(), 2);
  EXPECT_EQ(content[1]["top_logprobs"][0]["logprob"], content[1]["logprob"]);

  // I-01
  const Json echoed =
      complete("@plainGood", {{"echo", true}, {"logprobs", 1}})["choices"][0];
  EXPECT_EQ(echoed["text"], "@plainGood morning.");
  EXPECT_EQ(echoed["logprobs"]["tokens"],
            Json({"@plain", "Good", " morning", "."}));
  EXPECT_EQ(echoed["logprobs"]["text_offset"], Json({0, 6, 10, 18}));
  const Json values = echoed["logprobs"]["token_logprobs"];
  EXPECT_EQ(values[0], nullptr);
  // The script's next token is the likely one each time.
  EXPECT_NEAR(values[1].get<double>(), values[2].get<double>(), 1e-3);
}

// I-01: a prompt that is read in several parts, once for all of its choices.
TEST(PromptLogprobs, AreThoseOfThePromptReadAtOnce) {
  const auto values = [](int chunk, int n) {
    Service service;
    service.serve(load_scripted({.prefill_chunk = chunk}));
    std::string prompt;
    for (int i = 0; i < 70; ++i) prompt += char('a' + i * i % 26);
    const Json body = {{"prompt", {prompt, prompt + "x"}},
                       {"echo", true},
                       {"logprobs", 2},
                       {"max_tokens", 0},
                       {"n", n}};
    auto outcome = completions(service, {.body = body.dump()});
    auto& exchange = *std::get<std::unique_ptr<Exchange>>(outcome);
    Json lists = Json::array();
    const Json answer = Json::parse(read_all(exchange));
    EXPECT_TRUE(answer.contains("choices")) << answer;
    for (const Json& choice : answer.at("choices")) {
      lists.push_back(choice["logprobs"]["token_logprobs"]);
    }
    return lists;
  };
  const Json whole = values(256, 1), parts = values(20, 2);
  ASSERT_EQ(parts.size(), 4);
  ASSERT_EQ(whole[1].size(), 71);
  for (int choice = 0; choice < 4; ++choice) {
    const Json& list = parts[choice];
    ASSERT_EQ(list.size(), whole[choice / 2].size());
    EXPECT_EQ(list[0], nullptr);
    for (size_t i = 1; i < list.size(); ++i) {
      ASSERT_TRUE(list[i].is_number()) << i;
      EXPECT_NEAR(list[i], whole[choice / 2][i], 1e-3) << i;
    }
  }
}

// A-10
TEST_F(Scripted, ABiasActsInItsRequestOnly) {
  const Json fields = {{"logit_bias", Json::array({{".", 100}})},
                       {"max_tokens", 1}};
  EXPECT_EQ(complete("@plain", fields)["choices"][0]["text"], ".");
  EXPECT_EQ(complete("@plain")["choices"][0]["text"], "Good morning.");
}

// R-04, R-17
TEST_F(Scripted, SeveralPromptsAndChoices) {
  const Json list = complete({"@plain", "@nl"}, {{"n", 2}})["choices"];
  ASSERT_EQ(list.size(), 4);
  EXPECT_EQ(list[1]["text"], "Good morning.");
  EXPECT_EQ(list[2]["text"], "What?\nNext line");

  const Json fields = {{"n", 3},
                       {"temperature", 2},
                       {"seed", 3},
                       {"max_tokens", 12},
                       {"logit_bias", no_specials()}};
  const Json choices = complete("q", fields)["choices"];
  ASSERT_EQ(choices.size(), 3);
  EXPECT_NE(choices[0]["text"], choices[1]["text"]);
  EXPECT_NE(choices[1]["text"], choices[2]["text"]);
  const Json second = {{"temperature", 2},
                       {"seed", 4},
                       {"max_tokens", 12},
                       {"logit_bias", no_specials()}};
  EXPECT_EQ(complete("q", second)["choices"][0]["text"], choices[1]["text"]);
}

// R-17
TEST_F(Scripted, TheBestOfSeveral) {
  Json body = {{"prompt", "q"},
               {"n", 4},
               {"temperature", 2},
               {"seed", 3},
               {"max_tokens", 6},
               {"logprobs", 0},
               {"logit_bias", no_specials()}};
  auto exchange = take_exchange(post(completions, body));
  const Json all = Json::parse(read_all(*exchange))["choices"];
  const auto mean = [](const Json& choice) {
    const Json& values = choice.at("logprobs").at("token_logprobs");
    EXPECT_EQ(values.size(), 6);
    double sum = 0;
    for (const Json& value : values) sum += value.get<double>();
    return sum / 6;
  };
  const Json best = *std::max_element(
      all.begin(), all.end(),
      [&](const Json& a, const Json& b) { return mean(a) < mean(b); });
  body["n"] = 1;
  body["best_of"] = 4;
  body.erase("logprobs");
  exchange = take_exchange(post(completions, body));
  const Json json = Json::parse(read_all(*exchange));
  ASSERT_EQ(json["choices"].size(), 1);
  EXPECT_EQ(json["choices"][0]["text"], best["text"]);
  EXPECT_EQ(json["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(json["usage"]["completion_tokens"], 24);
}

// A-04, A-05
TEST_F(Scripted, TheContextIsTheLimit) {
  const Json error = reply(
      post(completions, {{"prompt", std::string(300, 'z')}}), 400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(),
              HasSubstr("300 tokens, but the model's maximum context length is "
                        "256 tokens"));
  const Json json =
      complete(std::string(250, 'z'), {{"ignore_eos", true}, {"n_keep", 1000}});
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["total_tokens"], kContext);
}

// 8 rows and 64 in the queue.
TEST_F(Scripted, MoreChoicesThanItHoldsAreRefused) {
  const Json error =
      reply(post(completions, {{"prompt", "q"}, {"n", 73}}), 400)["error"];
  EXPECT_EQ(error["param"], "n");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("at most 72"));
}

// Whatever the template makes of it: its texts, tools and names.
TEST_F(Scripted, EndlessPromptsAreNotTokenised) {
  const std::string name(1 << 20, 'x');
  Json body = {
      {"messages", Json::array({Json{{"role", "user"}, {"content", "hi"}}})},
      {"tools", tools({"f"})}};
  body["tools"][0]["function"]["parameters"] = {{"properties", {{name, {}}}}};
  const Json error = reply(post(chat_completions, body), 400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("has at least"));
}

TEST_F(Scripted, LeavingCancels) {
  const auto served = service_.model();
  const auto cancelled = [&] {
    return served->engine->stats().finished[int(Finish::cancelled)];
  };
  const auto before = cancelled();
  auto exchange = take_exchange(post(
      completions, {{"prompt", "q"}, {"ignore_eos", true}, {"stream", true}}));
  exchange.reset();
  for (int i = 0; i < 600 && cancelled() == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(cancelled(), before + 1);
}

TEST_F(Scripted, Texts) {
  const Json tokens = reply(post(tokenize, {{"content", "@plainA"}}))["tokens"];
  ASSERT_EQ(tokens.size(), 2);
  EXPECT_EQ(reply(post(detokenize, {{"tokens", tokens}}))["content"],
            "@plainA");
  const Json pieces = reply(
      post(tokenize, {{"content", "\u00e9"}, {"with_pieces", true}}))["tokens"];
  ASSERT_EQ(pieces.size(), 2);
  EXPECT_EQ(pieces[0]["piece"], Json({0xC3}));
  const Json messages =
      Json::array({Json{{"role", "user"}, {"content", "hi"}}});
  EXPECT_EQ(reply(post(apply_template, {{"messages", messages}}))["prompt"],
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant");
  reply(post(detokenize, {{"tokens", {1, -1}}}), 400);
  reply(post(tokenize, {{"content", 5}}), 400);
}

TEST_F(Scripted, ModelsAndState) {
  const Json list = reply(list_models(service_, {}));
  EXPECT_EQ(list["data"][0]["id"], "org/scripted");
  EXPECT_EQ(list["data"][0]["context_window"], kContext);
  EXPECT_EQ(list["data"][0]["reasoning"], true);
  EXPECT_EQ(reply(get_model(service_, {.path = "/v1/models/org/scripted"})),
            list["data"][0]);
  EXPECT_EQ(reply(get_model(service_, {.path = "/v1/models/x"}),
                  404)["error"]["code"],
            "model_not_found");
  EXPECT_EQ(std::get<ApiReply>(health(service_, {})).body,
            R"({"status": "ok"})");
  complete("@plain");
  const Json state = reply(stats(service_, {}));
  EXPECT_EQ(state["kv_quant"]["layers"], (Json{{"append/f16", 1}}));
  EXPECT_EQ(state["kv_quant"]["by_layer"], Json::array({"append/f16"}));
  EXPECT_GT(state["batch"]["submitted_rows"], 0);
  EXPECT_EQ(state["batch"]["layout"], "ragged");
  EXPECT_EQ(state["batch"]["configured"], 8);
  EXPECT_GT(state["batch"]["kv_budget_bytes"], 0);
  EXPECT_EQ(state["model"]["context"], kContext);
}

TEST(Loading, IsSaid) {
  Service service;
  EXPECT_EQ(std::get<ApiReply>(health(service, {})).status, 503);
  EXPECT_EQ(std::get<ApiReply>(health(service, {})).body,
            R"({"status": "loading"})");
  for (auto endpoint : {chat_completions, completions, list_models, get_model,
                        tokenize, detokenize, apply_template, stats}) {
    const ApiOutcome outcome = endpoint(service, {.body = "{}"});
    const auto& reply = std::get<ApiReply>(outcome);
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.headers[0].first, "retry-after");
    EXPECT_EQ(Json::parse(reply.body)["error"]["code"], "model_loading");
  }
}

}  // namespace
}  // namespace quern::test
