// What is typed: help, options, errors. No model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/temp_dir.h"
#include "cli/run_command.h"

namespace quern::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// One line on stderr that holds `word`, nothing on stdout.
void expect_refused(const Done& done, int code, const std::string& word) {
  EXPECT_EQ(done.code, code);
  EXPECT_EQ(done.out, "");
  EXPECT_THAT(done.err, AllOf(StartsWith("quern: "), HasSubstr(word)));
  EXPECT_EQ(done.err.find('\n'), done.err.size() - 1) << done.err;
}

constexpr const char* kCommands[] = {"chat",     "serve",      "generate",
                                     "tokenize", "logits",     "bench",
                                     "models",   "perplexity", "version"};

TEST(Options, HelpNamesEveryCommand) {
  for (const auto& arguments :
       {std::vector<std::string>{}, {"help"}, {"--help"}}) {
    const Done done = quern(arguments);
    EXPECT_EQ(done.code, 0);
    EXPECT_EQ(done.err, "");
    for (const char* command : kCommands) {
      EXPECT_THAT(done.out, HasSubstr(fmt::format("\n  {} ", command)));
    }
  }
}

TEST(Options, EveryCommandHasHelp) {
  for (const char* command : kCommands) {
    const Done done = quern({"help", command});
    EXPECT_EQ(done.code, 0);
    EXPECT_THAT(done.out, HasSubstr(fmt::format("quern {}", command)));
    EXPECT_EQ(quern({command, "--help"}).out, done.out);
  }
}

TEST(Options, UnknownNamesAreRefused) {
  expect_refused(quern({"serf"}), 2, "'serf'");
  expect_refused(quern({"help", "serf"}), 2, "'serf'");
  expect_refused(quern({"version", "--jsn"}), 2, "'--jsn'");
  expect_refused(quern({"version", "--jsn=1"}), 2, "'--jsn'");
  expect_refused(quern({"generate", "m", "--prompt", "a", "--warm", "3"}), 2,
                 "'--warm'");
  expect_refused(quern({"version", "-x"}), 2, "'-x'");
  expect_refused(quern({"bench", "m", "--kv", "turbo:k3v3"}), 2,
                 "--kv: turbo keys have 2, 4, 5 or 8 bits, not 3");
  expect_refused(quern({"serve", "m", "--kv", "3"}), 2,
                 "--kv: no KV scheme '3': expected one of raw, 4, 8, "
                 "turbo[:k#v#], config[:FILE]");
  expect_refused(quern({"serve", "m", "--kv", "config:"}), 2,
                 "--kv: expected a file after config:");
  expect_refused(quern({"serve", "m", "--kv-ring", "4"}), 2, "--kv-ring");
  expect_refused(quern({"version", "more"}), 2, "'more'");
  expect_refused(quern({"version", "a\nb"}), 2, "'a\\x0Ab'");
}

TEST(Options, NumbersAreReadStrictly) {
  for (const char* value :
       {"5.1", "-0.1", "nan", "inf", "", "1x", " 1", "0x1", "1,5"}) {
    expect_refused(quern({"generate", "m", "--prompt", "a", "--temp", value}),
                   2, "--temp: expected a number from 0 to 5, got");
  }
  const std::pair<const char*, const char*> faults[] = {
      {"--top-p", "1.01"},
      {"--top-k", "-2"},
      {"--min-p", "2"},
      {"--xtc-probability", "-1"},
      {"--xtc-threshold", "0.6"},
      {"--repetition-penalty", "0"},
      {"--presence-penalty", "x"},
      {"--frequency-penalty", "101"},
      {"--logit-bias", "7"},
      {"--logit-bias", "7=2000"},
      {"--logit-bias", "x=1"},
      {"--seed", "-1"},
      {"--seed", "1.5"},
      {"--logprobs", "21"},
      {"--max-tokens", "0"},
      {"--threads", "1025"},
      {"--prefill-chunk", "0"},
      {"--ids", "1,,2"},
      {"--ids", "1,2,"},
      {"--ids", "99999999999"},
      {"--stop", ""}};
  for (auto [name, value] : faults) {
    expect_refused(quern({"generate", "m", "--prompt", "a", name, value}), 2,
                   fmt::format("{}: expected", name));
  }
}

TEST(Options, BothSpellingsAreOne) {
  expect_refused(quern({"generate", "m", "--prompt=a", "--top-k=-2"}), 2,
                 "--top-k: expected a whole number from -1 to");
  expect_refused(quern({"generate", "m", "--prompt=", "--top-k", "-2"}), 2,
                 "--top-k: expected");
  expect_refused(quern({"generate", "m", "--prompt=", "--stop="}), 2,
                 "--stop: expected text");
}

TEST(Options, ValuesAreNeededOnce) {
  expect_refused(quern({"generate", "m", "--prompt"}), 2, "--prompt");
  expect_refused(quern({"generate", "m", "--seed", "1", "--seed", "2"}), 2,
                 "--seed");
  expect_refused(quern({"logits", "m", "--ids", "1"}), 2, "--out");
  expect_refused(quern({"tokenize", "m"}), 2, "--text");
  expect_refused(quern({"tokenize", "m", "--text", "a", "--file", "b"}), 2,
                 "--text");
  expect_refused(quern({"generate", "m"}), 2, "--prompt");
  expect_refused(quern({"generate", "m", "--prompt=a", "--raw", "--system=b"}),
                 2, "--system");
}

// D-10: a typed backslash stays one unless --escape is given.
TEST(Options, UnknownEscapesAreRefused) {
  for (const char* prompt : {"a\\q", "a\\"}) {
    expect_refused(quern({"generate", "m", "--escape", "--prompt", prompt}), 2,
                   "--prompt");
  }
}

TEST(Options, MissingModelsAreNamed) {
  const TempDir empty;
  const CommandInput nowhere{.environment = {{"QUERN_MODELS", empty.path()},
                                             {"HF_HUB_CACHE", empty.path()}}};
  for (const char* command : {"tokenize", "generate", "chat"}) {
    std::vector<std::string> arguments{command, "no/such-model"};
    if (command[0] == 't') arguments.push_back("--text=a");
    if (command[0] == 'g') arguments.push_back("--prompt=a");
    expect_refused(quern(arguments, nowhere), 1, "no/such-model");
  }
  expect_refused(quern({"chat"}, nowhere), 1, empty.path());
  EXPECT_EQ(quern({"models", "--json"}, nowhere).json(), Json::array());
}

TEST(Options, LogprobsNeedJson) {
  const Done done = quern({"generate", "m", "--prompt=a", "--logprobs=1"});
  expect_refused(done, 2, "--logprobs");
  EXPECT_THAT(done.err, HasSubstr("--json"));
}

TEST(Options, AnErrorStaysOnItsLine) {
  expect_refused(quern({"tokenize", "/no/a\n\x1B[31mb", "--text=a"}), 1,
                 "a\\x0A\\x1B[31mb");
}

TEST(Version, SaysWhatRuns) {
  const Json json = quern({"version", "--json"}).json();
  EXPECT_EQ(json["mlx"], "0.32.4");
  EXPECT_THAT(json["isa_available"], testing::Contains("portable"));
  EXPECT_GE(json["threads"], 1);
  EXPECT_EQ(quern({"-v"}).out, quern({"version"}).out);
  EXPECT_THAT(quern({"version"}).out,
              HasSubstr("quern " + json["version"].get<std::string>()));
}

TEST(Version, TheIsaCanBeForced) {
  const Done done = quern({"version", "--json"},
                          {.environment = {{"QUERN_ISA", "portable"}}});
  EXPECT_EQ(done.json()["isa"], "portable");
  expect_refused(quern({"version"}, {.environment = {{"QUERN_ISA", "sse"}}}), 1,
                 "QUERN_ISA=sse");
}

TEST(Options, ServeReadsItsValuesStrictly) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"--port", "65536"},         {"--batch", "0"},
      {"--queue", "-1"},           {"--context", "0"},
      {"--memory-budget", "0"},    {"--thinking", "maybe"},
      {"--log-level", "loud"},     {"--reasoning-field", "text"},
      {"--api-key", ""},           {"--drain", "-1"},
      {"--cors-origin", "a\r\nb"}, {"--unix", ""},
      {"--model-name", ""},        {"--batch-layout", "flat"}};
  for (const auto& [name, value] : kFaults) {
    expect_refused(quern({"serve", "m", name, value}), 2, name);
  }
}

TEST(Options, ServeRefusesAPortInUse) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(fd, any, size), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(::getsockname(fd, any, &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  expect_refused(quern({"serve", "m", "--port", port}), 1,
                 "port " + port + " of 127.0.0.1 is in use");
  ::close(fd);
}

}  // namespace
}  // namespace quern::test
