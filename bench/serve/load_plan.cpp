#include "serve/load_plan.h"

#include "base/json.h"

namespace quern {
namespace {

// Each is one token of the usual vocabularies, with the space before it.
constexpr const char* kWords[] = {
    "time",     "year",    "people",   "way",   "day",        "man",
    "thing",    "woman",   "life",     "child", "world",      "school",
    "state",    "family",  "student",  "group", "country",    "problem",
    "hand",     "part",    "place",    "case",  "week",       "company",
    "system",   "program", "question", "work",  "government", "number",
    "night",    "point",   "home",     "water", "room",       "mother",
    "area",     "money",   "story",    "fact",  "month",      "lot",
    "right",    "study",   "book",     "eye",   "job",        "word",
    "business", "issue",   "side",     "kind",  "head",       "house",
    "service",  "friend",  "father",   "power", "hour",       "game",
    "line",     "end"};

// What is wrong is seen at different depths of a server.
struct Malformed {
  const char* flaw;
  const char* path;  // empty: the body is all that is sent
  std::string body;
};

const Malformed kMalformed[] = {
    {"no HTTP", "", "\x16\x03\x01\x02 no request line\r\n\r\n"},
    {"unknown path", "/v1/nothing", "{}"},
    {"JSON cut short", "/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": )"},
    {"JSON nested too deep", "/v1/completions", std::string(100'000, '[')},
    {"bytes that are not UTF-8", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"\xc4\xe3\"}]}"},
    {"messages that are no list", "/v1/chat/completions",
     R"({"messages": "hello", "stream": true})"},
    {"temperature that is no number", "/v1/completions",
     R"({"prompt": "a", "temperature": "hot", "stream": true})"}};

}  // namespace

LoadPlan::LoadPlan(const LoadOptions& options)
    : options_(options), random_(options.seed) {}

int LoadPlan::draw(Range range) {
  return range.low + int(random_() % uint64_t(range.high - range.low + 1));
}

double LoadPlan::draw_share() { return double(random_() >> 11) * 0x1p-53; }

Manner LoadPlan::draw_manner() {
  double at = draw_share();
  if ((at -= options_.disconnect_share) < 0) return Manner::disconnects;
  if ((at -= options_.malformed_share) < 0) return Manner::malformed;
  if ((at -= options_.slow_reader_share) < 0) return Manner::reads_slowly;
  return Manner::reads;
}

Call LoadPlan::next() {
  const Manner manner = draw_manner();
  if (manner == Manner::malformed) return malformed();
  Call call{.manner = manner, .max_tokens = draw(options_.max_tokens)};
  call.bytes = post(options_.chat ? "/v1/chat/completions" : "/v1/completions",
                    body(draw(options_.prompt_tokens), call.max_tokens));
  // Early enough to find some of them in the queue and in the prompt.
  call.hang_up_s = draw_share() < 0.5 ? 2 * draw_share() : options_.stuck_s;
  call.hang_up_tokens = draw({1, call.max_tokens});
  return call;
}

std::string LoadPlan::words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += ' ';
    text += kWords[random_() % std::size(kWords)];
  }
  return text;
}

std::string LoadPlan::body(int prompt_tokens, int max_tokens) {
  Json body;
  const std::string text = words(prompt_tokens);
  if (options_.chat) {
    body["messages"] = {{{"role", "user"}, {"content", text}}};
  } else {
    body["prompt"] = text;
  }
  body["max_tokens"] = max_tokens;
  body["temperature"] = options_.temperature;
  if (options_.temperature > 0) body["seed"] = random_() >> 33;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  for (int id : options_.banned) {
    body["logit_bias"][std::to_string(id)] = -100;
  }
  // llama-server: no answer from an earlier call's prompt.
  body["cache_prompt"] = false;
  return body.dump();
}

Call LoadPlan::malformed() {
  const Malformed& one = kMalformed[random_() % std::size(kMalformed)];
  return {.manner = Manner::malformed,
          .bytes = *one.path ? post(one.path, one.body) : one.body,
          .flaw = one.flaw};
}

std::string LoadPlan::post(const std::string& path,
                           const std::string& body) const {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      path, options_.host, options_.port, body.size(), body);
}

}  // namespace quern
