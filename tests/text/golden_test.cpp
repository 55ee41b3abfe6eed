// Ids of 2,000 lines against the reference tokenizers; the real models lie in
// QUERN_MODELS (default ~/.cache/quern/models). tools/make_token_goldens.py
// made the goldens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "text/detokenizer.h"
#include "text/prompt.h"
#include "text/reply_parser.h"

namespace quern {
namespace {

using Ids = std::vector<int32_t>;

Path models() {
  const char* folder = std::getenv("QUERN_MODELS");
  if (folder) return folder;
  const Path cache = Path(std::getenv("HOME")) / ".cache";
  const Path own = cache / "quern" / "models";
  return std::filesystem::exists(own) ? own : cache / "quern-models";
}

Tokenizer gguf(const char* name) {
  const auto file = Gguf::open(models() / name).or_throw();
  return Tokenizer::from_gguf(gguf_vocabulary(*file).or_throw()).or_throw();
}

std::vector<std::string> lines() {
  const auto text = read_text(QUERN_TEST_DIR "/goldens/text/lines.txt");
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end; (end = text->find('\n', begin)) != std::string::npos;) {
    out.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// Reads the LEB128 numbers of an .ids file.
class Numbers {
 public:
  explicit Numbers(const std::string& name)
      : bytes_(read_text(QUERN_TEST_DIR "/goldens/text/" + name).or_throw()) {}

  bool done() const { return at_ == bytes_.size(); }

  uint32_t next() {
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = bytes_.at(at_++);
      value |= static_cast<uint32_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }

  Ids list() {
    Ids out(next());
    for (int32_t& id : out) id = static_cast<int32_t>(next());
    return out;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

void expect_goldens(const Tokenizer& tokenizer, const std::string& name) {
  const auto text = lines();
  ASSERT_EQ(text.size(), 2000u);
  Numbers numbers(name);
  std::vector<Ids> parsed(text.size());
  for (Ids& ids : parsed) ids = numbers.list();
  std::vector<Ids> plain = parsed;
  while (!numbers.done()) {
    const uint32_t line = numbers.next();
    plain.at(line) = numbers.list();
  }
  for (size_t i = 0; i < text.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(*tokenizer.encode(text[i],
                                {.add_special = false, .parse_special = true}),
              parsed[i]);
    EXPECT_EQ(*tokenizer.encode(text[i], {.add_special = false}), plain[i]);
  }
}

// Every byte of a text comes back, whole or streamed.
void expect_round_trip(const Tokenizer& tokenizer) {
  for (const std::string& line : lines()) {
    const Ids ids = *tokenizer.encode(line, {.add_special = false});
    EXPECT_EQ(tokenizer.decode(ids), line);
  }
}

TEST(Goldens, SmolLm2) {
  const auto t = gguf("SmolLM2-135M-Instruct.Q4_1.gguf");
  expect_goldens(t, "smollm2.ids");
  expect_round_trip(t);
  EXPECT_TRUE(t.prefix_ids().empty());
  EXPECT_EQ(t.end_ids(), (Ids{0, 2}));
}

TEST(Goldens, Qwen25Coder) {
  const auto t = gguf("Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf");
  expect_goldens(t, "qwen2.5-coder.ids");
  expect_round_trip(t);
  EXPECT_EQ(t.end_ids(), (Ids{151643, 151645}));
}

TEST(Goldens, Gemma3) {
  const auto t = gguf("gemma-3-270m.Q4_K_M.gguf");
  expect_goldens(t, "gemma3.ids");
  EXPECT_EQ(*raw_ids(t, "a"), (Ids{2, *t.id_of("a")}));
  EXPECT_EQ(t.end_ids(), (Ids{1, 106}));
}

TEST(Goldens, MiniLm) {
  const auto t =
      Tokenizer::from_directory(models() / "all-MiniLM-L6-v2").or_throw();
  expect_goldens(t, "minilm.ids");
  EXPECT_EQ(*t.encode("hello"), (Ids{101, 7592, 102}));
  EXPECT_EQ(t.decode(Ids{101, 7592, 2088, 2015, 102}), "hello worlds");
}

// The prompt of messages is the rendered text, tokenised as one text.
TEST(Goldens, ChatPromptsOfTheModels) {
  for (const char* name : {"SmolLM2-135M-Instruct.Q4_1.gguf",
                           "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"}) {
    const auto file = Gguf::open(models() / name).or_throw();
    const auto vocabulary = gguf_vocabulary(*file).or_throw();
    const auto t = Tokenizer::from_gguf(vocabulary).or_throw();
    const auto templates =
        ChatTemplates::from_source(vocabulary.chat_template).or_throw();
    const ChatInput input{
        .messages = *parse_json(R"([{"role": "system", "content": "S"},
          {"role": "user", "content": "Hi  there, \u4f60\u597d <b>"}])",
                                "messages")};
    const auto text = chat_text(t, templates, input).or_throw();
    EXPECT_EQ(*chat_ids(t, templates, input),
              *t.encode(text, {.add_special = false, .parse_special = true}));
    EXPECT_EQ(t.decode(*chat_ids(t, templates, input), false), text);
  }
}

// None of the models at hand reasons; Qwen's tags of calls are tokens with
// text.
TEST(Goldens, ReplyFormatsOfTheModels) {
  for (const char* name :
       {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m.Q4_K_M.gguf",
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"}) {
    SCOPED_TRACE(name);
    const auto file = Gguf::open(models() / name).or_throw();
    const auto vocabulary = gguf_vocabulary(*file).or_throw();
    const auto t = Tokenizer::from_gguf(vocabulary).or_throw();
    const auto templates =
        ChatTemplates::from_source(vocabulary.chat_template).or_throw();
    const auto format = ReplyFormat::of(t, templates);
    EXPECT_FALSE(format.think_open || format.think_close);
    ASSERT_TRUE(format.tools);
    EXPECT_EQ(format.tools->name, "hermes");
    EXPECT_TRUE(format.special_tags.empty());
    if (templates.empty()) continue;
    const ChatInput input{
        .messages = Json::array({{{"role", "user"}, {"content", "Hi"}}})};
    EXPECT_FALSE(
        format.opens_reasoning(chat_text(t, templates, input).or_throw()));
  }
}

// What Qwen 2.5's own template writes of calls is taken apart to the calls.
TEST(Goldens, CallsOfTheQwenTemplateComeBack) {
  const auto file =
      Gguf::open(models() / "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf")
          .or_throw();
  const auto vocabulary = gguf_vocabulary(*file).or_throw();
  const auto t = Tokenizer::from_gguf(vocabulary).or_throw();
  const auto templates =
      ChatTemplates::from_source(vocabulary.chat_template).or_throw();
  ASSERT_EQ(t.id_of("<tool_call>"), 151657);
  const ChatInput input{
      .messages = *parse_json(R"([{"role": "user", "content": "q"},
        {"role": "assistant", "content": "I look.", "tool_calls": [
          {"type": "function", "function":
            {"name": "f", "arguments": {"g": "\u8bf4", "n": {"a": [1, 2]}}}},
          {"type": "function", "function":
            {"name": "f", "arguments": {}}}]}])",
                              "messages"),
      .add_generation_prompt = false};
  const auto ids = chat_ids(t, templates, input).or_throw();
  const int32_t start = *t.id_of("<|im_start|>"), end = *t.id_of("<|im_end|>");
  // The last turn, after "assistant" and the line break.
  auto at = std::find(ids.rbegin(), ids.rend(), start).base() + 2;
  const auto format = ReplyFormat::of(t, templates);
  const Json tools = Json::array({{{"function", {{"name", "f"}}}}});
  ReplyParser parser(format, std::make_shared<const Json>(tools), false);
  Detokenizer detokenizer(t);
  std::string content;
  std::vector<ToolCall> calls;
  for (; *at != end; ++at) {
    for (auto& piece : parser.push(*at, detokenizer.push(*at))) {
      content += piece.text;
      if (piece.text.empty()) calls.push_back(piece.call);
    }
  }
  EXPECT_EQ(content, "I look.");
  EXPECT_EQ(calls, (std::vector<ToolCall>{
                       {"f", "{\"g\": \"\u8bf4\", \"n\": {\"a\": [1, 2]}}"},
                       {"f", "{}"}}));
  EXPECT_TRUE(parser.finish().empty());
}

}  // namespace
}  // namespace quern
