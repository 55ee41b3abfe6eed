// One of the clients of a load: a connection and the call on it.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <string>

#include "serve/figures.h"
#include "serve/http_reply.h"
#include "serve/load_plan.h"

namespace quern {

// Waits with the load's epoll instance, which it adds its socket to; the event
// data is `index`. Times are seconds on the load's clock.
class Caller {
 public:
  Caller(const sockaddr_in& server, const LoadOptions& options,
         Figures& figures, int epoll, int index);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // On the connection of the last call where the server keeps it open.
  void begin(Call call, double now);
  // `events`: of epoll, on the socket.
  void on_ready(uint32_t events, double now);
  // To be called often: what happens by the clock.
  void on_tick(double now);

  bool busy() const { return busy_; }
  double free_from() const { return free_from_; }  // when it may begin again

 private:
  // What came of the answer under way.
  struct Answer {
    int deltas = 0, prompt_tokens = 0, tokens = 0;
    bool finish = false, done = false;
    std::string error;
    double first = 0, last = 0;  // deltas
  };

  void open(double now);
  void hang_up();
  void wait_for(uint32_t events);
  void send(double now);
  void receive(size_t most, double now);
  void on_body(double now);
  void on_data(std::string_view data, double now);
  void on_delta(double now);
  void on_closed(const std::string& error, double now);
  void on_reply(double now);
  std::string fault() const;  // of an answer that came whole; empty: none
  void end(Outcome outcome, double now, const std::string& reason = "");

  sockaddr_in server_;
  const LoadOptions& options_;
  Figures& figures_;
  int epoll_, index_;

  int fd_ = -1;
  bool reused_ = false;  // the connection had a call before this one
  bool busy_ = false;
  double free_from_ = 0;

  Call call_;
  size_t sent_ = 0;
  double begun_ = 0, heard_ = 0;  // heard_: the last token, or the start
  double read_at_ = 0;            // of one that reads slowly
  HttpReply reply_;
  EventLines lines_;
  std::string body_;  // not looked at yet; of a stream
  Answer answer_;
};

}  // namespace quern
