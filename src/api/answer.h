// An answer under way: the engine's events, through a dialect, to bytes.
#pragma once

#include <memory>
#include <vector>

#include "api/exchange.h"
#include "api/mailbox.h"
#include "api/service.h"
#include "api/writer.h"

namespace quern {

// The dialect of an answer. With a fold it comes in one piece.
struct Dialect {
  std::unique_ptr<Writer> writer;
  std::unique_ptr<Fold> fold = nullptr;
};

// Gives the requests, a choice each, to the engine. Throws ApiError if it does
// not take them. The listeners of the requests write into `mailbox`.
std::unique_ptr<Exchange> start_answer(std::shared_ptr<ServedModel> served,
                                       std::vector<Request> requests,
                                       std::shared_ptr<Mailbox> mailbox,
                                       Dialect dialect);

// The same without an engine: for events of another origin.
std::unique_ptr<Exchange> make_answer(std::shared_ptr<ServedModel> served,
                                      Tickets tickets,
                                      std::shared_ptr<Mailbox> mailbox,
                                      Dialect dialect);

}  // namespace quern
