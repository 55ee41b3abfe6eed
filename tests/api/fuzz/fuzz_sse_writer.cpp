#include <cstdint>

#include "api/answer.h"
#include "api/chat_writer.h"
#include "api/choice.h"
#include "api/completion_writer.h"
#include "api/served.h"
#include "fuzz/check.h"

namespace {

using namespace quern;

const auto kTools = std::make_shared<const Json>(
    Json::parse(R"([{"type": "function", "function": {"name": "f"}}])"));

// Two readers of the same answer: a stream and one piece.
class Answers {
 public:
  explicit Answers(bool chat) : chat_(chat) {
    for (bool streamed : {true, false}) add(streamed);
  }

  void play(const uint8_t* tokens, size_t size, bool scores) {
    for (size_t i = 0; i < mailboxes_.size(); ++i) {
      Choice choice(served().tokenizer, options(scores), mailboxes_[i], 0);
      Ending ending{.finish = Finish::stop};
      for (size_t t = 0; t < size; ++t) {
        ++ending.tokens;
        // 256 and above are special and added tokens.
        const int32_t id = tokens[t] < 0xF8 ? tokens[t] : tokens[t] + 8;
        if (!choice.on_token({.token = id, .logprob = -1})) break;
        bytes_[i] += exchanges_[i]->take().bytes;
      }
      choice.on_end(ending);
      const auto part = exchanges_[i]->take();
      fuzz::require(part.last);
      bytes_[i] += part.bytes;
    }
  }

  void check() {
    Json folded = folded_stream();
    fuzz::require(valid_utf8(bytes_[0]) && valid_utf8(bytes_[1]));
    fuzz::require(folded == Json::parse(bytes_[1]));
  }

 private:
  static const ServedModel& served() {
    static const auto served = test::served_without_engine();
    return *served;
  }

  ChoiceOptions options(bool scores) const {
    ChoiceOptions options{.stops = {"stop", "\n\n"}, .scores = scores};
    if (chat_) options.parser = ReplyParser(served().format, kTools, false);
    return options;
  }

  std::unique_ptr<Fold> fold() const {
    if (chat_) return std::make_unique<ChatFold>();
    return std::make_unique<CompletionFold>(1, 1);
  }

  void add(bool streamed) {
    const AnswerHead head{.id = "x-1", .created = 7, .model = "m"};
    Dialect dialect;
    if (chat_) {
      dialect.writer = std::make_unique<ChatWriter>(
          head, served().tokenizer,
          ChatWriterOptions{.include_usage = true, .logprobs = true});
    } else {
      CompletionRequest request;
      request.generation.include_usage = true;
      request.prompts = {{"p", {'p'}}};
      request.logprobs = 0;
      dialect.writer = std::make_unique<CompletionWriter>(
          head, served().tokenizer, std::move(request));
    }
    if (!streamed) dialect.fold = fold();
    mailboxes_.push_back(std::make_shared<Mailbox>(1));
    exchanges_.push_back(make_answer(nullptr, {std::make_shared<Ticket>()},
                                     mailboxes_.back(), std::move(dialect)));
    bytes_.emplace_back();
  }

  // Each event is one line of JSON; the last is [DONE].
  Json folded_stream() const {
    auto folded = fold();
    std::string_view rest = bytes_[0];
    while (true) {
      const size_t end = rest.find('\n');
      fuzz::require(end != rest.npos && rest.substr(end).starts_with("\n\n"));
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 2);
      fuzz::require(line.starts_with("data: "));
      line.remove_prefix(6);
      if (line == "[DONE]") break;
      folded->add(Json::parse(line));
    }
    fuzz::require(rest.empty());
    return folded->whole();
  }

  const bool chat_;
  std::vector<std::shared_ptr<Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<std::string> bytes_;
};

}  // namespace

// Input: a byte of options, then a token a byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Answers answers(data[0] & 1);
  answers.play(data + 1, size - 1, data[0] & 2);
  answers.check();
  return 0;
}
