#include <cstdint>

#include "fuzz/check.h"
#include "text/detokenizer.h"
#include "text/stops.h"

// Input: a byte that chooses the piece size, then the bytes of a stream.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  if (size == 0) return 0;
  const size_t piece = 1 + data[0] % 7;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  Utf8Stream whole, pieces;
  std::string text = whole.push(bytes);
  text += whole.finish();
  StopMatcher stops({"ab", "\xEF\xBF\xBD!"});
  std::string streamed, stopped;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    const std::string delta = pieces.push(bytes.substr(at, piece));
    streamed += delta;
    stopped += stops.push(delta);
  }
  const std::string tail = pieces.finish();
  streamed += tail;
  stopped += stops.push(tail);
  stopped += stops.finish();
  fuzz::require(streamed == text);
  fuzz::require(text.starts_with(stopped));
  fuzz::require(stops.stopped() || stopped == text);
  fuzz::require(!Json(text).dump().empty());  // throws unless UTF-8
  return 0;
}
