#include <cstdint>

#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/served.h"
#include "fuzz/check.h"

namespace {

using namespace quern;

// What a request was read to, or its refusal.
template <class Read>
void check(Read read) {
  try {
    const auto request = read();
    const GenerationFields& g = request.generation;
    fuzz::require(bool(validate(g.sampling, test::kVocabulary)));
    fuzz::require(g.choices >= 1 && g.choices <= kMaxChoices);
    fuzz::require(g.max_tokens >= -1);
  } catch (const ApiError& e) {
    fuzz::require(e.kind().status == 400);
    const Json error = error_json(e.what(), e.kind());
    fuzz::require(valid_utf8(json_text(error)));
  }
}

}  // namespace

// Input: the body of a request, read as both kinds.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto served = test::served_without_engine();
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check([&] { return read_chat(parse_body(body), *served); });
  check([&] { return read_completion(parse_body(body), *served); });
  return 0;
}
