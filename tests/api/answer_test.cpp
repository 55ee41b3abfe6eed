#include "api/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat_writer.h"
#include "text/synthetic.h"

namespace quern::test {
namespace {

using testing::HasSubstr;

constexpr const char* kChunk =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,)"
    R"("model":"m","choices":[{"index":0,"delta":%s,"logprobs":null,)"
    R"("finish_reason":%s}]})"
    "\n\n";

std::string chunk(const char* delta, const char* finish = "null") {
  char text[512];
  std::snprintf(text, sizeof text, kChunk, delta, finish);
  return text;
}

// An answer of one choice, whose events the test makes.
struct Made {
  explicit Made(bool streamed) {
    Dialect dialect{
        .writer = std::make_unique<ChatWriter>(
            AnswerHead{.id = "chatcmpl-1", .created = 7, .model = "m"},
            synthetic::byte_level(), ChatWriterOptions())};
    if (!streamed) dialect.fold = std::make_unique<ChatFold>();
    exchange = make_answer(nullptr, {ticket}, mailbox, std::move(dialect));
  }

  std::shared_ptr<Ticket> ticket = std::make_shared<Ticket>();
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>(1);
  std::unique_ptr<Exchange> exchange;
};

Ended ended(Finish finish) {
  return {.ending = {.finish = finish, .reason = "row 5 broke", .tokens = 1}};
}

TEST(Answer, StreamsAsItComes) {
  Made made(true);
  EXPECT_TRUE(made.exchange->streamed());
  auto part = made.exchange->take();
  EXPECT_EQ(part.bytes, "");
  EXPECT_FALSE(part.last);

  made.mailbox->put(0, {TextDelta{.text = "Hi"}});
  part = made.exchange->take();
  EXPECT_EQ(part.bytes, chunk(R"({"role":"assistant","content":""})") +
                            chunk(R"({"content":"Hi"})"));
  EXPECT_FALSE(part.last);

  made.mailbox->put(0, {ended(Finish::stop)});
  part = made.exchange->take();
  EXPECT_EQ(part.bytes, chunk("{}", R"("stop")") + "data: [DONE]\n\n");
  EXPECT_TRUE(part.last);
  ASSERT_EQ(made.exchange->endings().size(), 1);
  EXPECT_EQ(made.exchange->endings()[0].tokens, 1);
}

TEST(Answer, ComesInOnePiece) {
  Made made(false);
  EXPECT_FALSE(made.exchange->streamed());
  made.mailbox->put(0, {TextDelta{.text = "Hi"}});
  EXPECT_EQ(made.exchange->take().bytes, "");
  made.mailbox->put(0, {TextDelta{.text = " you"}, ended(Finish::length)});
  const auto part = made.exchange->take();
  EXPECT_TRUE(part.last);
  EXPECT_EQ(made.exchange->status(), 200);
  EXPECT_EQ(Json::parse(part.bytes)["choices"][0]["message"]["content"],
            "Hi you");
}

TEST(Answer, AFaultIsTheLastEvent) {
  Made made(true);
  made.mailbox->put(0, {TextDelta{.text = "Hi"}, ended(Finish::failed)});
  const auto part = made.exchange->take();
  EXPECT_TRUE(part.last);
  EXPECT_EQ(made.exchange->status(), 200);
  EXPECT_THAT(
      part.bytes,
      testing::EndsWith(
          chunk(R"({"content":"Hi"})") +
          R"(data: {"error":{"message":"row 5 broke","type":"server_error",)"
          R"("param":null,"code":"internal_error"}})"
          "\n\n"));
}

TEST(Answer, AFaultIsTheWholeReply) {
  const std::pair<Finish, int> cases[] = {{Finish::failed, 500},
                                          {Finish::cancelled, 503}};
  for (const auto& [finish, status] : cases) {
    Made made(false);
    made.mailbox->put(0, {TextDelta{.text = "Hi"}, ended(finish)});
    const auto part = made.exchange->take();
    EXPECT_TRUE(part.last);
    EXPECT_EQ(made.exchange->status(), status);
    EXPECT_EQ(Json::parse(part.bytes)["error"]["type"], "server_error");
    EXPECT_EQ(made.exchange->headers(),
              status == 503 ? Headers({{"retry-after", "5"}}) : Headers());
  }
}

TEST(Answer, KeepaliveTellsTheProgress) {
  Made made(true);
  EXPECT_EQ(made.exchange->keepalive(), ": keepalive 0/0\n\n");
  made.mailbox->set_progress(0, {512, 4096});
  EXPECT_EQ(made.exchange->keepalive(), ": keepalive 512/4096\n\n");
  EXPECT_EQ(Made(false).exchange->keepalive(), "");
}

TEST(Answer, LeavingCancels) {
  Made made(true);
  int rings = 0;
  made.exchange->on_ready([&] { ++rings; });
  EXPECT_FALSE(made.ticket->cancelled());
  made.exchange.reset();
  EXPECT_TRUE(made.ticket->cancelled());
  made.mailbox->put(0, {ended(Finish::cancelled)});
  EXPECT_EQ(rings, 0);
}

}  // namespace
}  // namespace quern::test
