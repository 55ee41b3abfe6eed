// Text, exactly: the scripted model (tools/scripted_model.py) answers "@name"
// with the tokens that scripts.json lists under it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/temp_dir.h"
#include "cli/run_command.h"

namespace quern::test {
namespace {

using testing::HasSubstr;

constexpr const char* kModel = QUERN_SCRIPTED_MODEL;

Done generate(std::vector<std::string> options) {
  options.insert(options.begin(), {"generate", kModel});
  return quern(options);
}

// The answer to a prompt, streamed and as JSON: both have the same text.
Json answer(const std::string& prompt, std::vector<std::string> options = {}) {
  options.push_back("--prompt=" + prompt);
  const Done streamed = generate(options);
  options.push_back("--json");
  const Done whole = generate(options);
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(streamed.code, 0) << streamed.err;
  const Json json = whole.json();
  EXPECT_EQ(streamed.out, json["text"].get<std::string>() + "\n");
  return json;
}

TEST(Generate, PlaysTheScript) {
  const Json json = answer("Say @plain");
  EXPECT_EQ(json["text"], "Good morning.");
  EXPECT_EQ(json["ids"].size(), 3);
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_EQ(json["stop"], nullptr);
  EXPECT_EQ(answer("@plain", {"--raw"})["text"], "Good morning.");
  EXPECT_EQ(answer("@plain", {"--exact"})["text"], "Good morning.");
}

// One llama layer with heads of 64.
TEST(KvConfig, IsReadFromWhereItIsSaid) {
  const TempDir dir;
  const std::string file = dir.path() / "kv.json";
  const auto bench = [&] {
    return quern({"bench", kModel, "--prompt=8", "--gen=1", "--runs=1",
                  "--kv=config:" + file, "--json"});
  };
  write_file(file, R"([{"layer_idx": 0, "scheme": "turbo"}])").or_throw();
  const Json row = bench().json()[0];
  EXPECT_EQ(row["kv"], "config");
  ASSERT_EQ(row["kv_layers"].size(), 1);
  EXPECT_THAT(row["kv_layers"].items().begin().key(),
              HasSubstr("turboquant:8:3"));

  write_file(file, R"([{"layer_idx": 1, "bits": 8}])").or_throw();
  Done done = bench();
  EXPECT_EQ(done.code, 1);
  EXPECT_EQ(done.err, "quern: " + file +
                          "[0]: layer_idx must be an integer in [0, 0], got "
                          "1\n");
  // The model has none of its own.
  done = generate({"--prompt=@plain", "--kv=config"});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.err, HasSubstr("kv_config.json: No such file"));
}

TEST(Generate, TakesTokenIds) {
  const Json json = answer("@plain", {"--raw"});
  std::string ids;
  for (const Json& id : json["prompt_ids"]) ids += "," + id.dump();
  EXPECT_EQ(generate({"--ids", ids.substr(1)}).out, "Good morning.\n");
  const Done done = generate({"--ids", "1,100000"});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.err, HasSubstr("100000"));
}

TEST(Generate, ReadsThePromptFromStdin) {
  EXPECT_EQ(
      quern({"generate", kModel, "--prompt", "-"}, {.text = "@plain"}).out,
      "Good morning.\n");
}

TEST(Generate, StopsAtMaxTokens) {
  const Json json = answer("@plain", {"--max-tokens", "2"});
  EXPECT_EQ(json["text"], "Good morning");
  EXPECT_EQ(json["ids"].size(), 2);
  EXPECT_EQ(json["finish_reason"], "length");
}

struct StopCase {
  const char *id, *prompt, *stop, *text;
  bool found;
};

TEST(Generate, StopStrings) {
  const StopCase cases[] = {
      {"B-01", "@stop", "\nUser:", "Alpha", true},
      {"B-04", "@alice", "Alice:", " Alice!x", false},
      {"B-05", "@nl", "\n", "What?", true},
      {"B-07", "@nl", "?\n", "What", true},
  };
  for (const StopCase& c : cases) {
    SCOPED_TRACE(c.id);
    const Json json = answer(c.prompt, {"--stop", c.stop, "--stop=zzz"});
    EXPECT_EQ(json["text"], c.text);
    EXPECT_EQ(json["stop"], c.found ? Json(c.stop) : Json(nullptr));
    EXPECT_EQ(json["finish_reason"], "stop");
  }
}

// C-01, C-02, C-07: characters come whole, what is none becomes one U+FFFD.
TEST(Generate, SplitCharacters) {
  EXPECT_EQ(answer("@emoji")["text"], "hi \U0001F642 bye");
  EXPECT_EQ(answer("@emoji")["ids"].size(), 6);
  EXPECT_EQ(answer("@cut")["text"], "cut \uFFFD space");
  EXPECT_EQ(answer("@end")["text"], "last \uFFFD");
  EXPECT_EQ(answer("@bad")["text"], "bad \uFFFD byte");
}

// D-10
TEST(Generate, OnlyEscapeUnescapes) {
  const auto ids = [](std::vector<std::string> options) {
    return answer("a\\nb", std::move(options))["prompt_ids"];
  };
  const Json typed = ids({"--raw"}), escaped = ids({"--raw", "--escape"});
  EXPECT_EQ(typed.size(), 4);  // byte tokens
  EXPECT_EQ(escaped.size(), 3);
  EXPECT_EQ(answer("a\nb", {"--raw"})["prompt_ids"], escaped);
  EXPECT_EQ(answer("a\nb", {"--raw", "--escape"})["prompt_ids"], escaped);
}

TEST(Generate, ASeedGivesTheSameText) {
  const auto text = [](const char* seed) {
    return answer("@plain",
                  {"--temp", "5", "--seed", seed, "--max-tokens", "40"})["ids"];
  };
  EXPECT_EQ(text("7"), text("7"));
  EXPECT_NE(text("7"), text("8"));
}

// A-11
TEST(Generate, ABannedTokenNeverComes) {
  const std::string second = answer("@plain")["ids"][1].dump();
  const Json json =
      answer("@plain", {"--logit-bias", second + "=-100", "--max-tokens=5"});
  EXPECT_EQ(json["text"].get<std::string>().substr(0, 4), "Good");
  for (const Json& id : json["ids"]) EXPECT_NE(id.dump(), second);
}

TEST(Generate, Logprobs) {
  const Json json =
      generate({"--prompt=@plain", "--logprobs=2", "--json"}).json();
  ASSERT_EQ(json["logprobs"].size(), 3);
  for (size_t i = 0; i < 3; i++) {
    const Json& one = json["logprobs"][i];
    EXPECT_EQ(one["id"], json["ids"][i]);
    EXPECT_EQ(one["top"].size(), 2);
    EXPECT_EQ(one["top"][0]["logprob"], one["logprob"]);
    EXPECT_LE(one["logprob"], 0);
  }
  EXPECT_EQ(json["logprobs"][1]["token"], " morning");
  EXPECT_FALSE(answer("@plain").contains("logprobs"));
}

TEST(Generate, APromptTooLongIsRefused) {
  const std::string prompt(5000, 'a');  // byte tokens; the context is 4096
  const Done done = generate({"--raw", "--prompt", prompt});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.err, HasSubstr("5000"));
  EXPECT_THAT(done.err, HasSubstr("4096"));
}

TEST(Generate, BytesThatAreNoTextAreRefused) {
  const Done done = generate({"--prompt", "\xc4\xe3"});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.err, HasSubstr("UTF-8"));
}

TEST(Generate, TheTemplateCanBeReplaced) {
  const TempDir dir;
  const Path file = dir.write("t.jinja", "{{ messages[-1].content }}");
  EXPECT_EQ(answer("@plain", {"--chat-template", file})["prompt_ids"],
            answer("@plain", {"--raw"})["prompt_ids"]);
}

// A copy of the scripted model, for changes.
Path copied_model(const TempDir& dir) {
  std::filesystem::copy(kModel, dir.path() / "model");
  return dir.path() / "model";
}

void expect_failed(const Done& done, std::vector<std::string> words) {
  EXPECT_EQ(done.code, 1);
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(done.err.find('\n'), done.err.size() - 1) << done.err;
  for (const std::string& word : words) {
    EXPECT_THAT(done.err, HasSubstr(word));
  }
}

TEST(Generate, AnEmptyTemplateFileIsRefused) {
  const TempDir dir;
  const Path file = dir.write("empty.jinja", "");
  expect_failed(generate({"--prompt=a", "--chat-template", file}),
                {"empty.jinja"});
}

TEST(Generate, ABiasOutsideTheVocabularyIsRefused) {
  const Done done = generate({"--prompt=a", "--logit-bias", "999999=5"});
  expect_failed(done, {"quern: --logit-bias: ", "999999"});
}

TEST(Generate, FieldsOfTheModelsConfigAreChecked) {
  const TempDir dir;
  const Path model = copied_model(dir);
  const std::pair<const char*, const char*> faults[] = {
      {"top_k", "1e30"},     {"top_k", "1.5"},
      {"top_k", "-2"},       {"top_k", "\"5\""},
      {"temperature", "-1"}, {"temperature", "1e39"},
      {"top_p", "1.5"},      {"min_p", "true"},
      {"do_sample", "1"},    {"repetition_penalty", "0"}};
  for (const auto& [field, value] : faults) {
    dir.write("model/generation_config.json",
              fmt::format("{{\"{}\": {}}}", field, value));
    expect_failed(quern({"generate", model, "--prompt=@plain"}),
                  {"generation_config.json: ", field, "expected"});
  }
  dir.write("model/generation_config.json",
            R"({"top_k": 50.0, "top_p": null, "do_sample": false})");
  EXPECT_EQ(quern({"generate", model, "--prompt=@plain"}).out,
            "Good morning.\n");
}

// Weights that are all 0xFF bytes: each f32 is NaN.
TEST(Logits, NanIsReported) {
  const TempDir dir;
  const Path model = copied_model(dir);
  const Path weights = model / "model.safetensors";
  std::string bytes = read_text(weights).or_throw();
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::fill(bytes.begin() + 8 + header, bytes.end(), '\xFF');
  write_file(weights, bytes).or_throw();
  const Path out = dir.path() / "out.npy", text = dir.write("t", "abcdef");
  expect_failed(quern({"logits", model, "--ids=1,2", "--out", out}),
                {"the model gave", "nan"});
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_failed(quern({"perplexity", model, "--file", text}),
                {"the model gave", "nan"});
}

TEST(Bench, TellsTheBytesOfMergedRows) {
  const auto bytes = [](const char* layout) {
    const Done done =
        quern({"bench", kModel, "--prompt=8", "--gen=2", "--batch=2",
               "--runs=1", "--json", "--batch-layout", layout});
    return int64_t(Json::parse(done.out)[0]["kv_bytes"]);
  };
  EXPECT_GT(bytes("ragged"), 0);
  EXPECT_GE(bytes("merged"), bytes("ragged"));
}

TEST(Perplexity, FaultsInWhatIsCompared) {
  const TempDir dir;
  const Path text = dir.write("t", "abcdef");
  const auto perplexity = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"perplexity", kModel, "--file", text});
    return quern(more);
  };
  const Done done = perplexity({"--compare", "raw", "--compare=turbo:k4v9"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, testing::HasSubstr("--compare: turbo values"));
  for (const char* twice : {"fast:exact:raw", "exact:fast:raw"}) {
    EXPECT_EQ(perplexity({"--compare", twice}).code, 2) << twice;
  }
  expect_failed(perplexity({"--context=4", "--skip=4"}), {"--skip 4 leaves"});
  expect_failed(perplexity({"--skip=100"}),
                {"tokens, at least 101 are needed"});
}

TEST(Tokenize, ReadsStdin) {
  const std::string want =
      quern({"tokenize", kModel, "--json", "--text=hello"}).out;
  for (const char* name : {"-", "/dev/stdin"}) {
    EXPECT_EQ(
        quern({"tokenize", kModel, "--file", name}, {.text = "hello\n"}).out,
        want);
  }
}

TEST(Tokenize, OneListALine) {
  const TempDir dir;
  const Path file = dir.write("lines.txt", "ab\n\n@plain\r\nlast");
  const Done done = quern({"tokenize", kModel, "--file", file});
  EXPECT_EQ(done.code, 0) << done.err;
  std::string want;
  for (const char* line : {"ab", "", "@plain\r", "last"}) {
    want += quern({"tokenize", kModel, "--json", "--text", line}).out;
  }
  EXPECT_EQ(done.out, want);
}

TEST(Tokenize, ABadLineIsNamed) {
  const TempDir dir;
  const Path file = dir.write("lines.txt", "ab\nb\xff\n");
  const Done done = quern({"tokenize", kModel, "--file", file});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.err, HasSubstr("line 2"));
}

TEST(Tokenize, SpecialTokensAreTextUnlessAskedFor) {
  const std::string text = "<|im_end|>";
  EXPECT_EQ(quern({"tokenize", kModel, "--json", "--text", text}).json().size(),
            text.size());  // byte tokens
  EXPECT_EQ(
      quern({"tokenize", kModel, "--json", "--parse-special", "--text", text})
          .json()
          .size(),
      1);
}

TEST(Chat, AnswersEachLineOfAPipe) {
  EXPECT_EQ(quern({"chat", kModel}, {.text = "@plain\n"}).out,
            "Good morning.\n");
  // After one turn of the assistant the model plays "@plain#1".
  const Done done = quern({"chat", kModel}, {.text = "@plain\n\nand @plain"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "Good morning.\nStill here?\n");
  EXPECT_EQ(done.err, "");
}

TEST(Chat, Commands) {
  EXPECT_EQ(
      quern({"chat", kModel}, {.text = "@plain\n/reset\n@plain\n/exit\n@nl"})
          .out,
      "Good morning.\nGood morning.\n");
  EXPECT_THAT(quern({"chat", kModel}, {.text = "/help\n"}).out,
              HasSubstr("/reset"));
  EXPECT_EQ(quern({"chat", kModel, "--stop= mor"}, {.text = "@plain"}).out,
            "Good\n");
}

TEST(Chat, UnknownCommandsAreAnsweredWithTheList) {
  const Done done = quern({"chat", kModel}, {.text = "/bogus\n"});
  EXPECT_THAT(done.out, HasSubstr("'/bogus'"));
  EXPECT_THAT(done.out, HasSubstr("/reset "));
  EXPECT_EQ(quern({"chat", kModel}, {.text = "/help \n"}).out,
            quern({"chat", kModel}, {.text = "/help\n"}).out);
  EXPECT_EQ(quern({"chat", kModel}, {.text = "/usr/bin @plain\n"}).out,
            "Good morning.\n");
}

TEST(Chat, ABackslashContinuesALine) {
  EXPECT_EQ(quern({"chat", kModel}, {.text = "@nl\\\n@plain\n"}).out,
            "Good morning.\n");
  EXPECT_EQ(quern({"chat", kModel}, {.text = "@plain\\"}).out,
            "Good morning.\n");
}

TEST(Chat, AFullContextNamesReset) {
  const std::string message(5000, 'a');  // byte tokens; the context is 4096
  expect_failed(quern({"chat", kModel}, {.text = message}), {"4096", "/reset"});
}

// What a terminal shows after each of some inputs.
class Terminal {
 public:
  explicit Terminal(std::vector<const char*> argv) {
    child_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
    if (child_ == 0) {
      argv.push_back(nullptr);
      ::execv(QUERN_BINARY, const_cast<char**>(argv.data()));
      ::_exit(127);
    }
  }
  ~Terminal() { ::close(fd_); }

  void type(std::string_view keys) {
    ASSERT_EQ(::write(fd_, keys.data(), keys.size()), ssize_t(keys.size()));
  }
  // Reads until `text` was shown; false if the program ended before.
  bool wait_for(const std::string& text) {
    char bytes[512];
    while (shown_.find(text) == shown_.npos) {
      const ssize_t count = ::read(fd_, bytes, sizeof bytes);
      if (count <= 0) return false;
      shown_.append(bytes, count);
    }
    shown_.erase(0, shown_.find(text) + text.size());
    return true;
  }
  int exit_code() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t child_;
  int fd_ = -1;
  std::string shown_;
};

TEST(Chat, CtrlCKeepsTheProgramAndCtrlDEndsIt) {
  Terminal terminal({"quern", "chat", kModel});
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("never sent\x03");
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("@plain\n");
  ASSERT_TRUE(terminal.wait_for("Good morning."));
  ASSERT_TRUE(terminal.wait_for("tokens/s"));
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("\x04");
  EXPECT_FALSE(terminal.wait_for("no more"));
  EXPECT_EQ(terminal.exit_code(), 0);
}

}  // namespace
}  // namespace quern::test
