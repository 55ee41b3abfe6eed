// What a load asks of a server, and how each of its callers behaves.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace quern {

struct Range {
  int low, high;  // both included
};

struct LoadOptions {
  std::string host = "127.0.0.1";
  int port = 8080;
  int streams = 1;
  // How long new calls are made, or how many in all; one of them is 0.
  double seconds = 0;
  int requests = 0;
  double warmup_s = 0;   // at the start, left out of the figures
  double stuck_s = 120;  // a call without a byte for so long is stuck
  uint64_t seed = 1;

  bool chat = false;  // /v1/chat/completions, not /v1/completions
  Range prompt_tokens{64, 64};
  Range max_tokens{64, 64};
  double temperature = 0;
  std::vector<int> banned;  // ids of the end tokens: answers run to max_tokens

  // Shares of the calls, from 0 to 1.
  double disconnect_share = 0, malformed_share = 0, slow_reader_share = 0;
};

enum class Manner {
  reads,
  reads_slowly,
  disconnects,  // in the queue, in the prompt or in the answer
  malformed     // what it sends must be refused with a 4xx
};

// One request.
struct Call {
  Manner manner;
  std::string bytes;  // as sent
  std::string flaw;   // of a malformed one
  int max_tokens;
  // When a caller that disconnects does: at the first of the two.
  double hang_up_s;
  int hang_up_tokens;
};

// The calls of a load; the same for the same options.
class LoadPlan {
 public:
  explicit LoadPlan(const LoadOptions& options);
  Call next();

 private:
  int draw(Range range);
  double draw_share();  // in [0, 1)
  Manner draw_manner();
  std::string words(int count);
  std::string body(int prompt_tokens, int max_tokens);
  Call malformed();
  std::string post(const std::string& path, const std::string& body) const;

  const LoadOptions& options_;
  std::mt19937_64 random_;
};

}  // namespace quern
