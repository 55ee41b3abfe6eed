#include "api/answer.h"

#include "api/error.h"

namespace quern {
namespace {

class Answer final : public Exchange {
 public:
  Answer(std::shared_ptr<ServedModel> served, Tickets tickets,
         std::shared_ptr<Mailbox> mailbox, Dialect dialect)
      : served_(std::move(served)),
        tickets_(std::move(tickets)),
        mailbox_(std::move(mailbox)),
        dialect_(std::move(dialect)),
        endings_(tickets_.size(), Ending{.finish = Finish::cancelled}),
        running_(tickets_.size()) {}

  ~Answer() override {
    mailbox_->close();
    cancel();
  }

  bool streamed() const override { return !dialect_.fold; }
  int status() const override { return status_; }
  Headers headers() const override { return headers_; }

  Part take() override {
    std::string bytes;
    for (auto& [choice, event] : mailbox_->take()) {
      if (closed_) break;
      if (const auto* ended = std::get_if<Ended>(&event)) {
        endings_[choice] = ended->ending;
        --running_;
        if (is_fault(ended->ending)) {
          fail(ended->ending, bytes);
          break;
        }
      }
      deliver(dialect_.writer->write(choice, event), bytes);
      if (running_ == 0) close(bytes);
    }
    return {std::move(bytes), closed_};
  }

  std::string keepalive() const override {
    if (!streamed()) return "";
    const Progress progress = mailbox_->progress();
    return fmt::format(": keepalive {}/{}\n\n", progress.fed, progress.total);
  }

  void on_ready(std::function<void()> ready) override {
    mailbox_->on_ready(std::move(ready));
  }

  std::vector<Ending> endings() const override { return endings_; }

 private:
  static bool is_fault(const Ending& ending) {
    return ending.finish == Finish::failed ||
           ending.finish == Finish::cancelled;
  }

  void cancel() {
    for (auto& ticket : tickets_) ticket->cancel();
  }

  void deliver(const std::vector<Json>& chunks, std::string& bytes) {
    for (const Json& chunk : chunks) {
      if (dialect_.fold) {
        dialect_.fold->add(chunk);
      } else {
        bytes += sse_data(chunk);
      }
    }
  }

  void close(std::string& bytes) {
    deliver(dialect_.writer->close(), bytes);
    bytes +=
        streamed() ? "data: [DONE]\n\n" : json_text(dialect_.fold->whole());
    closed_ = true;
  }

  // One choice's fault ends the answer: an error is its last event.
  void fail(const Ending& ending, std::string& bytes) {
    cancel();
    const ApiError error = error_of(ending);
    closed_ = true;
    if (streamed()) {
      bytes += sse_data(error_json(error.what(), error.kind()));
      return;
    }
    ApiReply reply = reply_of(error);
    bytes += reply.body;
    status_ = reply.status;
    headers_ = std::move(reply.headers);
  }

  const std::shared_ptr<ServedModel> served_;  // outlives the requests
  const Tickets tickets_;
  const std::shared_ptr<Mailbox> mailbox_;
  const Dialect dialect_;
  std::vector<Ending> endings_;
  size_t running_;
  int status_ = 200;
  Headers headers_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<Exchange> make_answer(std::shared_ptr<ServedModel> served,
                                      Tickets tickets,
                                      std::shared_ptr<Mailbox> mailbox,
                                      Dialect dialect) {
  return std::make_unique<Answer>(std::move(served), std::move(tickets),
                                  std::move(mailbox), std::move(dialect));
}

std::unique_ptr<Exchange> start_answer(std::shared_ptr<ServedModel> served,
                                       std::vector<Request> requests,
                                       std::shared_ptr<Mailbox> mailbox,
                                       Dialect dialect) {
  auto taken = served->engine->submit(std::move(requests));
  if (const auto* refusal = std::get_if<Refusal>(&taken)) {
    throw error_of(*refusal);
  }
  return make_answer(std::move(served), std::get<Tickets>(std::move(taken)),
                     std::move(mailbox), std::move(dialect));
}

}  // namespace quern
